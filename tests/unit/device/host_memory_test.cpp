#include "device/host_memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace maxbatch::test {
namespace {

namespace fs = std::filesystem;

/// A file system root with just what the function reads.
class PretendMachine : public ::testing::Test {
 protected:
  PretendMachine() : root_(fs::temp_directory_path() / ("maxbatch_host_memory_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:         1000000 kB\n");
  }
  ~PretendMachine() override { fs::remove_all(root_); }

  void write(std::string const& file, std::string const& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  Bytes memory() const { return detail::host_memory(root_); }

  static constexpr Bytes kMachine{std::int64_t{16} << 30};

 private:
  fs::path root_;
};

TEST_F(PretendMachine, WithoutControlGroupsHasItsOwnMemory) { EXPECT_EQ(memory(), kMachine); }

TEST_F(PretendMachine, WithoutALimitHasItsOwnMemory) {
  write("proc/self/cgroup", "0::/user\n");
  write("sys/fs/cgroup/user/memory.max", "max\n");
  EXPECT_EQ(memory(), kMachine);
}

TEST_F(PretendMachine, Version2LimitsHoldFromAnyAncestor) {
  write("proc/self/cgroup", "0::/box/job\n");
  write("sys/fs/cgroup/box/job/memory.max", "8000000000\n");
  EXPECT_EQ(memory(), Bytes{8'000'000'000});
  write("sys/fs/cgroup/box/memory.max", "4000000000\n");
  EXPECT_EQ(memory(), Bytes{4'000'000'000});
}

TEST_F(PretendMachine, Version1LimitsHoldAndItsHugeNumberMeansNone) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory(), kMachine);
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2000000000\n");
  EXPECT_EQ(memory(), Bytes{2'000'000'000});
}

TEST_F(PretendMachine, InAContainerTheLimitIsAtTheRootOfTheMount) {
  write("proc/self/cgroup", "0::/only/on/the/host\n");
  write("sys/fs/cgroup/memory.max", "3000000000\n");
  EXPECT_EQ(memory(), Bytes{3'000'000'000});
}

TEST_F(PretendMachine, ALimitBeyondTheMachineIsNone) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "999000000000\n");
  EXPECT_EQ(memory(), kMachine);
}

TEST(HostMemory, OfThisMachineIsPlausible) {
  EXPECT_GT(detail::host_memory().count, std::int64_t{1} << 27);
  EXPECT_LT(detail::host_memory().count, std::int64_t{1} << 50);
}

}  // namespace
}  // namespace maxbatch::test
