#include "compiler_surroundings.hpp"

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

namespace maxbatch::process {
namespace {

std::string cache_folder() {
  char const* const said = std::getenv("XDG_CACHE_HOME");
  if (said != nullptr && *said == '/') { return said; }
  char const* const home = std::getenv("HOME");
  return home == nullptr ? std::string() : std::string(home) + "/.cache";
}

bool make_folder(std::string const& path) { return mkdir(path.c_str(), 0777) == 0 || errno == EEXIST; }

std::string target_of(std::string const& link) {
  std::string target(4096, '\0');
  auto const length = readlink(link.c_str(), target.data(), target.size());
  target.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return target;
}

/// Several may do so at once: renaming is atomic.
bool make_link(std::string const& link, std::string const& target) {
  if (target_of(link) == target) { return true; }
  auto const made = link + '.' + std::to_string(getpid());
  unlink(made.c_str());
  if (symlink(target.c_str(), made.c_str()) != 0) { return false; }
  if (rename(made.c_str(), link.c_str()) == 0) { return true; }
  unlink(made.c_str());
  return false;
}

}  // namespace

EnvironmentChanges compiler_surroundings(std::filesystem::path const& dry_cuda_library) {
  auto const cache = cache_folder();
  if (cache.empty()) { return {}; }
  auto const library = dry_cuda_library.string();
  std::ostringstream name;
  name << std::hex << std::hash<std::string>()(library);
  auto const ours = cache + "/maxbatch";
  auto const compilers = ours + "/dry_compilers";
  // Made with the library where it is built; where it is installed, or came in a wheel, once per user.
  auto driver = (dry_cuda_library.parent_path() / "maxbatch_dry_driver").string();
  if (!std::filesystem::exists(driver + "/libcuda.so.1")) {
    driver = compilers + "/driver-" + name.str();
    for (auto const& folder : {cache, ours, compilers, driver}) {
      if (!make_folder(folder)) { return {}; }
    }
    if (!make_link(driver + "/libcuda.so.1", library)) { return {}; }
  }
  return {{"TRITON_LIBCUDA_PATH", driver},
          {"TRITON_CACHE_DIR", compilers + "/triton"},
          {"TORCHINDUCTOR_CACHE_DIR", compilers + "/inductor"}};
}

}  // namespace maxbatch::process
