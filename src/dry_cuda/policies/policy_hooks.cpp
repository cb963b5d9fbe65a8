// Note [The library of data policies]
// It knows LibTorch, so it is loaded only into processes where LibTorch already is, and there is one per version:
// libmaxbatch_data_policies-torch2.11.so. Which version the process has is asked of LibTorch's C interface. It registers
// nothing while it is being loaded: it does when it is started, at the process' first allocation, when LibTorch is complete
// and before anything on the card can be looked at.
#include "policy_hooks.hpp"

#include "dry_cuda/activation/environment.hpp"
#include "dry_cuda/report/report_page.hpp"
#include "policy_interface.hpp"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

namespace maxbatch::dry {
namespace {

std::atomic<PolicyHooks const*> installed = nullptr;

void install(PolicyHooks const* hooks) { installed.store(hooks, std::memory_order_release); }

void end_with(char const* sentence) { end_with_sentence(sentence); }

void say(std::string const& sentence) {
  auto const text = "maxbatch dry-run: " + sentence + ".\n";
  [[maybe_unused]] auto const written = write(STDERR_FILENO, text.data(), text.size());
}

/// "2.11", or nothing where no LibTorch is in the process.
std::string libtorch_version() {
  auto* const libtorch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (libtorch == nullptr) { return {}; }
  auto const version = reinterpret_cast<std::uint64_t (*)()>(dlsym(libtorch, "aoti_torch_abi_version"));
  auto const number = version == nullptr ? 0 : version();
  dlclose(libtorch);
  return number == 0 ? "of an unknown version"
                     : std::to_string(number >> 56) + "." + std::to_string((number >> 48) & 0xff);
}

/// Beside this library.
std::string library_path(std::string const& version) {
  Dl_info ours{};
  if (dladdr(reinterpret_cast<void*>(&install), &ours) == 0 || ours.dli_fname == nullptr) { return {}; }
  std::string const path = ours.dli_fname;
  auto const slash = path.rfind('/');
  return path.substr(0, slash + 1) + "libmaxbatch_data_policies-torch" + version + ".so";
}

std::string load(std::string const& version) {
  if (char const* const policy = std::getenv("MAXBATCH_DRY_POLICY");
      policy != nullptr && std::strcmp(policy, "off") == 0) {
    return "off: zeros";
  }
  auto const path = library_path(version);
  auto const without = ", so what depends on data is answered with zeros";
  if (access(path.c_str(), R_OK) != 0) {
    say("there are no data policies for LibTorch " + version + " (" + path + " is not there)" + without);
    return "none for LibTorch " + version + ": zeros";
  }
  auto* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    auto const* const error = dlerror();
    say(std::string("the data policies cannot be loaded (") + (error == nullptr ? path.c_str() : error) + ")" +
        without);
    return "not loaded: zeros";
  }
  auto const start = reinterpret_cast<StartPolicies>(dlsym(library, kStartPolicies));
  PolicySurroundings const surroundings{install, &process_record().data, end_with};
  auto const* const refusal = start == nullptr ? "it is no library of data policies" : start(&surroundings);
  if (refusal != nullptr) {
    say("the data policies do not start (" + std::string(refusal) + ")" + without);
    return "not started: zeros";
  }
  return {};  // they say themselves what they are
}

}  // namespace

void load_data_policies_once() noexcept {
  static std::atomic<bool> tried = false;
  if (tried.load(std::memory_order_relaxed) || tried.exchange(true)) { return; }
  auto const version = libtorch_version();
  if (version.empty()) { return; }
  auto const outcome = load(version);
  auto& told = process_record().data.policies;
  if (!outcome.empty()) { std::snprintf(told.data(), told.size(), "%s", outcome.c_str()); }
}

bool answer_read(void* host, void const* device, std::size_t bytes) noexcept {
  auto const* const hooks = installed.load(std::memory_order_acquire);
  return hooks != nullptr && hooks->answer_read(host, device, bytes);
}

void tell_device_memory_written() noexcept {
  if (auto const* const hooks = installed.load(std::memory_order_acquire)) { hooks->device_memory_written(); }
}

void tell_anything_written() noexcept {
  if (auto const* const hooks = installed.load(std::memory_order_acquire)) { hooks->anything_written(); }
}

}  // namespace maxbatch::dry
