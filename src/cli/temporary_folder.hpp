#pragma once

#include <string>

namespace maxbatch::cli {

/// A folder of this user alone, below TMPDIR or /tmp; removed with all that is in it.
class TemporaryFolder {
 public:
  /// Throws: std::runtime_error.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder const&) = delete;
  TemporaryFolder& operator=(TemporaryFolder const&) = delete;

  std::string const& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace maxbatch::cli
