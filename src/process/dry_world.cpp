#include "dry_world.hpp"

#include "compiler_surroundings.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace maxbatch::process {
namespace {

constexpr char const* kLibrary = "libmaxbatch_dry_cuda.so";

/// Where the code of this very function was loaded from.
std::filesystem::path folder_of_this_library() {
  Dl_info info{};
  auto const known = dladdr(reinterpret_cast<void const*>(&find_dry_cuda_library), &info) != 0;
  return known ? std::filesystem::absolute(info.dli_fname).parent_path() : std::filesystem::path(".");
}

}  // namespace

std::filesystem::path find_dry_cuda_library() {
  if (char const* const said = std::getenv("MAXBATCH_DRY_CUDA_LIBRARY")) {
    if (std::filesystem::exists(said)) { return std::filesystem::absolute(said); }
    throw NoDryWorld(std::string("MAXBATCH_DRY_CUDA_LIBRARY is ") + said + ", which is not there");
  }
  return find_preloaded_library(kLibrary);
}

std::string preload_of(std::filesystem::path const& library) {
  auto text = library.string();
  if (char const* const others = std::getenv("LD_PRELOAD")) { text += std::string(":") + others; }
  return text;
}

std::filesystem::path find_preloaded_library(std::string const& name) {
  std::array<std::filesystem::path, 2> const folders = {folder_of_this_library(),
                                                        std::filesystem::read_symlink("/proc/self/exe").parent_path()};
  for (auto const& folder : folders) {
    for (auto const* const place : {".", "dry_cuda", "../dry_cuda", "../lib", "../lib64", "../lib/x86_64-linux-gnu"}) {
      auto const library = folder / place / name;
      if (std::filesystem::exists(library)) { return std::filesystem::canonical(library); }
    }
  }
  throw NoDryWorld("this needs " + name +
                   ", which is not beside this program: it was built without it (MAXBATCH_BUILD_DRY_CUDA)" +
                   (name == kLibrary ? ", or MAXBATCH_DRY_CUDA_LIBRARY should say where it is" : ""));
}

NamelessFile::NamelessFile(char const* name, std::string const& contents)
    : descriptor_(memfd_create(name, MFD_CLOEXEC)) {
  auto const size = static_cast<ssize_t>(contents.size());
  if (descriptor_ < 0 || write(descriptor_, contents.data(), contents.size()) != size) {
    throw std::runtime_error(std::string("no memory for ") + name + ": " + std::strerror(errno));
  }
}

NamelessFile::~NamelessFile() {
  if (descriptor_ >= 0) { close(descriptor_); }
}

std::string NamelessFile::path() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor_);
}

DryWorld::DryWorld(DryWorldOrder const& order)
    : profile_("maxbatch-card", order.card_profile),
      environment_({{"LD_PRELOAD", preload_of(find_dry_cuda_library())},
                    {"MAXBATCH_CARD", order.card_name},
                    {"MAXBATCH_CARD_PROFILE", profile_.path()},
                    {"MAXBATCH_DRY_BUDGET", order.budget ? std::to_string(order.budget->count) : ""},
                    {"MAXBATCH_DRY_SEED", std::to_string(order.seed)},
                    {"MAXBATCH_DRY_DEVICES", std::to_string(order.devices)}}) {
  for (auto const& one : compiler_surroundings(find_dry_cuda_library())) { environment_.push_back(one); }
}

void DryWorld::outlive_exec() const { fcntl(profile_.descriptor(), F_SETFD, 0); }

}  // namespace maxbatch::process
