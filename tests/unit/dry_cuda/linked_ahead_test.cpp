// A test program that is linked with maxbatch::dry_cuda_link: started with MAXBATCH_CARD it is on a dry card, without it not.
// ctest runs it both ways, and finds its cases as those of any other.
#include <cuda_runtime_api.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <link.h>
#include <unistd.h>

namespace maxbatch::test {
namespace {

bool names_a_card() {
  char const* const card = std::getenv("MAXBATCH_CARD");  // NOLINT(concurrency-mt-unsafe): nobody changes it
  return card != nullptr && *card != '\0';
}

bool has_dry_library() {
  auto const look = [](dl_phdr_info* info, std::size_t, void*) {
    return std::string(info->dlpi_name).find("libmaxbatch_dry_cuda.so") == std::string::npos ? 0 : 1;
  };
  return dl_iterate_phdr(look, nullptr) != 0;
}

/// Made before main: a constructor of the program itself, which runs once.
int constructed = 0;
struct Constructed {
  Constructed() { ++constructed; }
} const once;

TEST(LinkedAhead, TheEnvironmentDecidesWhichWorldThisIs) {
  int devices = 0;
  auto const status = cudaGetDeviceCount(&devices);
  EXPECT_EQ(has_dry_library(), names_a_card());
  if (!names_a_card()) {
    // The real runtime's own answer, whatever it is on this machine.
    EXPECT_TRUE(status == cudaSuccess || status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice)
        << status;
    return;
  }
  EXPECT_EQ(status, cudaSuccess);
  EXPECT_EQ(devices, 1);
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "NVIDIA GeForce RTX 2080 Ti");
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, std::size_t{1} << 30), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, std::size_t{64} << 30), cudaErrorMemoryAllocation);
}

TEST(LinkedAhead, TheProgramIsTheSameOneWithItsOwnArguments) {
  EXPECT_EQ(constructed, 1);
  std::ifstream file("/proc/self/cmdline");
  std::string const command{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(command, testing::HasSubstr("linked_ahead_test"));
  EXPECT_THAT(command, testing::HasSubstr("--gtest_"));
  std::array<char, 4096> path{};
  ASSERT_GT(readlink("/proc/self/exe", path.data(), path.size() - 1), 0);
  EXPECT_THAT(path.data(), testing::EndsWith("linked_ahead_test"));
}

TEST(LinkedAhead, ThreadsAndChildrenAreInTheSameWorld) {
  int devices = -1;
  cudaError_t status{};
  std::thread([&] { status = cudaGetDeviceCount(&devices); }).join();
  EXPECT_EQ(status == cudaSuccess && devices == 1, names_a_card() || (status == cudaSuccess && devices == 1));
  auto* const pipe = popen("echo \"$LD_PRELOAD\"", "r");
  std::array<char, 4096> line{};
  ASSERT_NE(fgets(line.data(), static_cast<int>(line.size()), pipe), nullptr);
  pclose(pipe);
  EXPECT_EQ(std::string(line.data()).find("libmaxbatch_dry_cuda.so") != std::string::npos, names_a_card());
}

}  // namespace
}  // namespace maxbatch::test
