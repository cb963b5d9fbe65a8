#pragma once

#include <cstdio>
#include <string>

#include <ftw.h>

namespace maxbatch::test {

/// Not std::filesystem::remove_all: LibTorch's libraries export one of another compiler, and a test binary that links them
/// gets theirs, which ends in a null pointer.
inline void remove_folder(std::string const& folder) {
  auto const remove_one = [](char const* path, struct stat const*, int, struct FTW*) { return std::remove(path); };
  nftw(folder.c_str(), remove_one, /*descriptors=*/16, FTW_DEPTH | FTW_PHYS);
}

}  // namespace maxbatch::test
