#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace maxbatch::test {

struct Said {
  std::string text;  ///< both streams
  int exit_code = 0;
};

/// The program `maxbatch` with these arguments, as a shell starts it.
inline Said run_maxbatch(std::string const& arguments) {
  Said said;
  auto* const pipe = popen((std::string(MAXBATCH_PROGRAM) + ' ' + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> part{};
  for (std::size_t count = 0; (count = fread(part.data(), 1, part.size(), pipe)) > 0;) {
    said.text.append(part.data(), count);
  }
  auto const status = pclose(pipe);
  said.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return said;
}

inline std::string read_file(std::filesystem::path const& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// An empty folder of the test that runs.
class Folder {
 public:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  [[nodiscard]] std::string file(std::string const& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + std::to_string(getpid());
};

}  // namespace maxbatch::test
