#include "host_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include <unistd.h>

namespace maxbatch::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// "max" (version 2) and numbers beyond 63 bits mean no limit, as does a file that is not there.
std::int64_t limit_in(fs::path const& file) {
  std::ifstream stream(file);
  std::int64_t limit = 0;
  return stream >> limit && limit > 0 ? limit : kNoLimit;
}

/// Limits hold for everything below them, so the group and all its ancestors count.
std::int64_t tightest_limit(fs::path const& hierarchy, std::string const& group, char const* file_name) {
  auto tightest = limit_in(hierarchy / file_name);
  auto directory = hierarchy;
  for (auto const& part : fs::path(group).relative_path()) {
    directory /= part;
    tightest = std::min(tightest, limit_in(directory / file_name));
  }
  return tightest;
}

bool names_memory(std::string const& controllers) {
  std::istringstream list(controllers);
  for (std::string controller; std::getline(list, controller, ',');) {
    if (controller == "memory") { return true; }
  }
  return false;
}

/// Lines of /proc/self/cgroup: "0::/group" for version 2, "4:memory:/group" for version 1. In a container the group may
/// be one of the host's that is not to be seen here; its limit is then at the root of what is mounted, which counts too.
std::int64_t control_group_limit(fs::path const& root) {
  auto tightest = kNoLimit;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    auto const first = line.find(':');
    auto const second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) { continue; }
    auto const controllers = line.substr(first + 1, second - first - 1);
    auto const group = line.substr(second + 1);
    auto const mounts = root / "sys/fs/cgroup";
    if (controllers.empty()) {
      tightest = std::min(tightest, tightest_limit(mounts, group, "memory.max"));
      tightest = std::min(tightest, tightest_limit(mounts / "unified", group, "memory.max"));
    } else if (names_memory(controllers)) {
      tightest = std::min(tightest, tightest_limit(mounts / "memory", group, "memory.limit_in_bytes"));
    }
  }
  return tightest;
}

std::int64_t machine_memory(fs::path const& root) {
  std::ifstream stream(root / "proc/meminfo");
  for (std::string name; stream >> name;) {
    std::int64_t kibibytes = 0;
    if (name == "MemTotal:" && stream >> kibibytes) { return kibibytes * 1024; }
  }
  return std::int64_t{sysconf(_SC_PHYS_PAGES)} * std::int64_t{sysconf(_SC_PAGESIZE)};
}

}  // namespace

Bytes host_memory(fs::path const& root) { return Bytes{std::min(machine_memory(root), control_group_limit(root))}; }

}  // namespace maxbatch::detail
