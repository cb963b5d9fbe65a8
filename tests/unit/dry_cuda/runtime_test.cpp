#include <cuda_runtime_api.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace maxbatch::test {
namespace {

std::vector<std::string> lines_of(std::istream& stream) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) { lines.push_back(line); }
  return lines;
}

/// What the program says under `environment` with its two streams, and how it ended.
struct Said {
  std::string text;
  int status = 0;
};
Said say(std::string const& command) {
  Said said;
  auto* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> part{};
  for (std::size_t count = 0; (count = fread(part.data(), 1, part.size(), pipe)) > 0;) {
    said.text.append(part.data(), count);
  }
  said.status = pclose(pipe);
  return said;
}

std::string const kAnswers = MAXBATCH_RUNTIME_ANSWERS;

TEST(DryRuntime, AnswersAsARealH200) {
  auto const said = say("MAXBATCH_CARD=h200 " + kAnswers);
  ASSERT_EQ(said.status, 0);
  std::istringstream dry_text(said.text);
  std::ifstream real_file(std::string(MAXBATCH_TEST_DATA_DIR) + "/dry_cuda/h200_answers.txt");
  auto const real = lines_of(real_file);
  EXPECT_GT(real.size(), 360U);
  auto const dry = lines_of(dry_text);
  ASSERT_EQ(dry.size(), real.size());
  for (std::size_t i = 0; i < real.size(); ++i) { EXPECT_EQ(dry.at(i), real.at(i)); }
}

/// As an H200 answered, question by question; src/dry_cuda/README.md says how a card is asked.
TEST(DryRuntime, RefusesWhileAStreamIsCapturedWhatACardRefuses) {
  auto const said = say("MAXBATCH_CARD=h200 " MAXBATCH_CAPTURE_ANSWERS);
  ASSERT_EQ(said.status, 0);
  std::istringstream dry_text(said.text);
  std::ifstream expected_file(std::string(MAXBATCH_TEST_DATA_DIR) + "/dry_cuda/capture_answers.txt");
  auto const expected = lines_of(expected_file);
  EXPECT_GT(expected.size(), 400U);
  auto const dry = lines_of(dry_text);
  ASSERT_EQ(dry.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) { EXPECT_EQ(dry.at(i), expected.at(i)); }
}

/// As an H200 had them: 388 MiB each, and once 170 MiB of modules, which stay.
TEST(DryRuntime, CommunicatorsTakeMemory) {
  auto const said = say("MAXBATCH_CARD=rtx-2080-ti " MAXBATCH_OPENS_COMMUNICATORS);
  EXPECT_EQ(said.text,
            "first 585105408\nsecond 406847488\ndestroyed -813694976\n"
            "on a full card: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n");
}

TEST(DryRuntime, WithoutACardThereIsNoDevice) {
  auto const said = say("env -u MAXBATCH_CARD " + kAnswers);
  EXPECT_THAT(said.text, testing::HasSubstr("cudaGetDeviceCount = cudaErrorNoDevice"));
}

TEST(DryRuntime, EndsWithOneSentenceWhereTheCardCannotBeRead) {
  auto const said = say("MAXBATCH_CARD_PROFILE=/nowhere " + kAnswers);
  EXPECT_EQ(WEXITSTATUS(said.status), 2);
  EXPECT_EQ(said.text, "maxbatch dry-run: the card profile /nowhere cannot be read.\n");
  EXPECT_THAT(say("MAXBATCH_CARD=rtx-9999 " + kAnswers).text,
              testing::StartsWith("maxbatch dry-run: no card is called 'rtx-9999'"));
}

#if defined(MAXBATCH_REAL_CUDART)
TEST(DryRuntime, NamesEveryErrorAsTheRealRuntimeDoes) {
  auto* const real = dlopen(MAXBATCH_REAL_CUDART, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(real, nullptr) << dlerror();
  auto const real_name = reinterpret_cast<decltype(&cudaGetErrorName)>(dlsym(real, "cudaGetErrorName"));
  auto const real_text = reinterpret_cast<decltype(&cudaGetErrorString)>(dlsym(real, "cudaGetErrorString"));
  ASSERT_NE(real_name, &cudaGetErrorName);
  for (int number = -1; number < 1100; ++number) {
    auto const error = static_cast<cudaError_t>(number);
    EXPECT_STREQ(cudaGetErrorName(error), real_name(error)) << number;
    EXPECT_STREQ(cudaGetErrorString(error), real_text(error)) << number;
  }
}
#endif

/// What follows runs in this process, on the built-in card with 100 MiB to be had, twice.
class DryCard : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("MAXBATCH_CARD", "h200", 1);
    setenv("MAXBATCH_DRY_BUDGET", "104857600", 1);
    setenv("MAXBATCH_DRY_DEVICES", "2", 1);
  }
  void TearDown() override { cudaSetDevice(0); }
  static std::size_t free_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return free;
  }
  static constexpr std::size_t kMib = 1 << 20;
};

TEST_F(DryCard, RefusesWhatTheBudgetHasNotAndGivesBackWhatIsFreed) {
  ASSERT_EQ(free_bytes(), 100 * kMib);
  void* large = nullptr;
  void* small = nullptr;
  void* more = nullptr;
  ASSERT_EQ(cudaMalloc(&large, 90 * kMib), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&small, 9 * kMib), cudaSuccess);  // takes 10
  EXPECT_EQ(free_bytes(), 0U);
  EXPECT_EQ(cudaMalloc(&more, 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(more, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaFree(small), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&more, 10 * kMib), cudaSuccess);
  EXPECT_EQ(more, small);
  cudaFree(more);
  cudaFree(large);
  EXPECT_EQ(free_bytes(), 100 * kMib);
}

TEST_F(DryCard, EachDeviceHasItsOwnMemory) {
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 100 * kMib), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(free_bytes(), 100 * kMib);
  ASSERT_EQ(cudaMalloc(&second, 100 * kMib), cudaSuccess);
  cudaPointerAttributes attributes{};
  cudaPointerGetAttributes(&attributes, second);
  EXPECT_EQ(attributes.device, 1);
  cudaPointerGetAttributes(&attributes, first);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(cudaFree(first), cudaSuccess);  // from whichever device is current
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  int device = -1;
  std::thread([&] { cudaGetDevice(&device); }).join();
  EXPECT_EQ(device, 0) << "a thread begins on device 0";
}

TEST_F(DryCard, RemembersSmallCopiesUntilSomethingOverwritesThem) {
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, kMib), cudaSuccess);
  std::array<int, 4> const sent = {1, 2, 3, 4};
  std::array<int, 4> got{};
  cudaMemcpy(device, sent.data(), sizeof(sent), cudaMemcpyHostToDevice);
  cudaMemcpy(got.data(), device, sizeof(got), cudaMemcpyDeviceToHost);
  EXPECT_EQ(got, sent);
  auto* const other = static_cast<char*>(device) + 4096;
  cudaMemcpy(other, device, sizeof(sent), cudaMemcpyDeviceToDevice);
  int second = 0;
  cudaMemcpy(&second, other + 4, sizeof(second), cudaMemcpyDeviceToHost);
  EXPECT_EQ(second, 2);
  cudaMemset(device, 0xFF, 8);
  cudaMemcpy(&second, device, sizeof(second), cudaMemcpyDeviceToHost);
  EXPECT_EQ(second, -1);
  cudaMemcpy(got.data(), device, sizeof(got), cudaMemcpyDeviceToHost);
  EXPECT_THAT(got, testing::Each(0)) << "half of it is not known any more";
  cudaFree(device);
}

TEST_F(DryCard, ThreadsShareItWithoutLosingAByte) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 500; ++round) {
        void* memory = nullptr;
        EXPECT_EQ(cudaMalloc(&memory, 3 * kMib), cudaSuccess);
        EXPECT_EQ(cudaFree(memory), cudaSuccess);
      }
    });
  }
  for (auto& thread : threads) { thread.join(); }
  EXPECT_EQ(free_bytes(), 100 * kMib);
}

TEST_F(DryCard, EventsAreInTheOrderOfTheWork) {
  cudaStream_t stream = nullptr;
  cudaEvent_t before = nullptr;
  cudaEvent_t after = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  cudaEventCreate(&before);
  cudaEventCreate(&after);
  cudaEventRecord(before, stream);
  cudaEventRecord(after, stream);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, before, after), cudaSuccess);
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, after, before), cudaSuccess);
  EXPECT_LT(milliseconds, 0);
  cudaEventDestroy(before);
  EXPECT_EQ(cudaEventRecord(before, stream), cudaErrorInvalidResourceHandle);
  cudaEventDestroy(after);
  cudaStreamDestroy(stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_F(DryCard, RefusesByNameWhatItCannotDo) {
  testing::internal::CaptureStderr();
  cudaIpcMemHandle_t handle{};
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, nullptr), cudaErrorNotSupported);
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, nullptr), cudaErrorNotSupported);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "maxbatch dry-run: not supported on a dry card: cudaIpcGetMemHandle\n");
  cudaGetLastError();
}

TEST_F(DryCard, AForkedChildCannotUseIt) {
  free_bytes();
  auto const child = fork();
  if (child == 0) {
    void* memory = nullptr;
    _exit(cudaMalloc(&memory, 16) == cudaErrorInitializationError ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

using DryCardDeathTest = DryCard;
TEST_F(DryCardDeathTest, AHostAccessToDeviceMemorySaysSo) {
  EXPECT_EXIT(
      {
        void* memory = nullptr;
        cudaMalloc(&memory, 16);
        *static_cast<volatile int*>(memory) = 1;
      },
      testing::KilledBySignal(SIGSEGV), "the host accessed device memory, at 0x00003ffff7e00000");
}

}  // namespace
}  // namespace maxbatch::test

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  return RUN_ALL_TESTS();
}
