// What an H200's driver took for itself in 19 training programs, as it was traced (tests/device/driver_pieces).
#include "dry_cuda/memory/driver_pieces.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace maxbatch::dry {

// In this namespace: comparisons and printing are looked up beside the type.
static bool operator==(DriverPieces::Piece const& a, DriverPieces::Piece const& b) {
  return a.kind == b.kind && a.bytes == b.bytes;
}
static void PrintTo(DriverPieces::Piece const& piece, std::ostream* out) {
  *out << (piece.kind == DriverPieces::Kind::device ? "device "
           : piece.kind == DriverPieces::Kind::host ? "host "
                                                    : "grow ")
       << piece.bytes;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kMib = std::int64_t{1} << 20;
constexpr DriverPieces::Piece kCode{DriverPieces::Kind::device, 2 * kMib};
constexpr DriverPieces::Piece kOfLibraries{DriverPieces::Kind::device, 2 * kMib};
constexpr DriverPieces::Piece kStream{DriverPieces::Kind::device, 2 * kMib};
constexpr DriverPieces::Piece kPinned{DriverPieces::Kind::host, 2 * kMib};
constexpr DriverPieces::Piece kGrown{DriverPieces::Kind::grow_local_memory, 0};
constexpr DriverPieces::Piece kTraps{DriverPieces::Kind::host, 8 * kMib + 260 * 1024};
constexpr DriverPieces::Piece kHandle{DriverPieces::Kind::device, 64 * kMib};

constexpr KernelCode kPlain{};
constexpr KernelCode kBesideAnAssertion{false, true};
constexpr KernelCode kAsserts{true, true};

TEST(DriverPieces,
     OfAConvolutionalNetInPython) {  // torchvision's ResNet-50: normal numbers, convolution, batch norm's counter
  DriverPieces driver;
  EXPECT_THAT(driver.kernel_loaded(kPlain), ElementsAre(kCode));
  EXPECT_THAT(driver.cudnn_handle_created(), ElementsAre(kOfLibraries, kStream, kStream, kStream, kStream, kPinned));
  EXPECT_THAT(driver.library_kernel_loaded({"cudnnBackendExecute", 1}), IsEmpty());
  EXPECT_THAT(driver.kernel_loaded(kBesideAnAssertion), ElementsAre(kGrown, kPinned));
  EXPECT_THAT(driver.kernel_loaded(kAsserts), ElementsAre(kTraps));
  EXPECT_THAT(driver.cublas_handle_created(64 * kMib), ElementsAre(kHandle));
  EXPECT_THAT(driver.cublas_handle_created(64 * kMib), ElementsAre(kHandle)) << "autograd's thread";
  EXPECT_THAT(driver.cudnn_handle_created(), ElementsAre(kStream, kStream, kStream, kStream)) << "autograd's thread";
}

TEST(DriverPieces, OfADecoderInPython) {  // GPT-2: random integers, an embedding's gather, which asserts, products
  DriverPieces driver;
  EXPECT_THAT(driver.kernel_loaded(kPlain), ElementsAre(kCode));
  EXPECT_THAT(driver.kernel_loaded(kAsserts), ElementsAre(kGrown, kPinned, kTraps));
  EXPECT_THAT(driver.cublas_handle_created(64 * kMib), ElementsAre(kOfLibraries, kHandle));
}

TEST(DriverPieces, OfOurOwnFinder) {  // it wakes the card with a filled tensor and a handle of cuBLAS for each thread
  DriverPieces driver;
  EXPECT_THAT(driver.kernel_loaded(kBesideAnAssertion), ElementsAre(kCode, kGrown, kPinned));
  EXPECT_THAT(driver.cublas_handle_created(64 * kMib), ElementsAre(kOfLibraries, kHandle));
  EXPECT_THAT(driver.kernel_loaded(kAsserts), ElementsAre(kTraps));
  EXPECT_THAT(driver.cublas_handle_created(64 * kMib), ElementsAre(kHandle));
  EXPECT_THAT(driver.cudnn_handle_created(), ElementsAre(kStream, kStream, kStream, kStream, kPinned));
}

TEST(DriverPieces, ADetectorsCountsAreReadThroughPinnedMemoryAheadOfCudnn) {
  DriverPieces driver;
  EXPECT_THAT(driver.pinned_memory_taken(4), ElementsAre(kPinned));
  EXPECT_THAT(driver.pinned_memory_taken(4096), IsEmpty());
  EXPECT_THAT(driver.cudnn_handle_created(), ElementsAre(kOfLibraries, kStream, kStream, kStream, kStream));
}

/// A cause and what the driver took for it, but for code, whose size nobody knows here.
struct Traced {
  std::string cause;
  DriverPieces::Pieces pieces;
  int code = 0;
};

std::vector<Traced> read_trace(std::filesystem::path const& path) {
  std::vector<Traced> all;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    std::int64_t bytes = 0;
    words >> word >> bytes;
    if (word == "code") {
      ++all.back().code;
    } else if (word == "grow") {
      all.back().pieces.push_back(kGrown);
    } else if (word == "device" || word == "host") {
      all.back().pieces.push_back({word == "host" ? DriverPieces::Kind::host : DriverPieces::Kind::device, bytes});
    } else {
      all.push_back({line, {}, 0});
    }
  }
  return all;
}

DriverPieces::Pieces modelled(DriverPieces& driver, std::string const& cause) {
  if (cause == "cublas") { return driver.cublas_handle_created(64 * kMib); }
  if (cause == "cudnn") { return driver.cudnn_handle_created(); }
  if (cause == "pinned") { return driver.pinned_memory_taken(1); }
  return driver.kernel_loaded({cause.at(7) == '1', cause.at(9) == '1'});
}

TEST(DriverPieces, AreThoseOfEveryTracedProgram) {
  int programs = 0;
  for (auto const& file : std::filesystem::directory_iterator(MAXBATCH_TEST_DATA_DIR "/driver_pieces")) {
    SCOPED_TRACE(file.path().filename().string());
    ++programs;
    DriverPieces driver;
    auto const traced = read_trace(file.path());
    ASSERT_GT(traced.size(), 10U);
    EXPECT_EQ(traced.front().code, 1) << "the first kernel gets the first slab";
    for (std::size_t i = 0; i < traced.size(); ++i) {
      auto const& [cause, pieces, code] = traced[i];
      auto expected = modelled(driver, cause);
      if (cause.front() == 'k' && !expected.empty() && expected.front() == kCode) { expected.erase(expected.begin()); }
      EXPECT_EQ(expected, pieces) << "line " << i << ": " << cause;
    }
  }
  EXPECT_EQ(programs, 19);
}

TEST(DriverPieces, CodeIsLoadedOnce) {
  DriverPieces driver;
  static_cast<void>(driver.kernel_loaded(kPlain));
  int slabs = 0;
  for (int call = 0; call < 100; ++call) {
    slabs +=
        static_cast<int>(driver.library_kernel_loaded({"cublasSgemm_v2", static_cast<std::uint64_t>(call % 3)}).size());
  }
  EXPECT_EQ(slabs, 0) << "three variants share the first slab";
  for (std::uint64_t plan = 0; plan < 100; ++plan) {
    slabs += static_cast<int>(driver.library_kernel_loaded({"cudnnBackendExecute", plan}).size());
  }
  EXPECT_GE(slabs, 3) << "a hundred convolutions do not";
}

TEST(DriverPieces, WhereNoKernelIsKnownTheFirstProductMovesLocalMemory) {
  DriverPieces driver;
  EXPECT_THAT(driver.unknown_kernel_loaded(), ElementsAre(kGrown, kPinned));
  EXPECT_THAT(driver.unknown_kernel_loaded(), IsEmpty());
  EXPECT_THAT(driver.kernel_loaded(kBesideAnAssertion), ElementsAre(kCode));
}

}  // namespace
}  // namespace maxbatch::dry
