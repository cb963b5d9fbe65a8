#include "temporary_folder.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <ftw.h>

namespace maxbatch::cli {
namespace {

int remove_one(char const* path, struct stat const*, int, FTW*) {
  std::remove(path);
  return 0;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  char const* const parent = std::getenv("TMPDIR");
  path_ = std::string(parent == nullptr ? "/tmp" : parent) + "/maxbatch-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) {
    throw std::runtime_error("no folder for temporary files in " + path_ + ": " + std::strerror(errno));
  }
}

// Not std::filesystem: LibTorch exports that of another compiler.
TemporaryFolder::~TemporaryFolder() {
  constexpr int kOpenFolders = 32;
  nftw(path_.c_str(), remove_one, kOpenFolders, FTW_DEPTH | FTW_PHYS);
}

}  // namespace maxbatch::cli
