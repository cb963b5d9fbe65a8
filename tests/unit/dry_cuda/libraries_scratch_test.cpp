// What the dry card says about scratch memory, against what an H200 said: the files in src/dry_cuda/libraries/measured.
#include "dry_cuda/libraries/cudnn_rnn_sizes.hpp"
#include "dry_cuda/libraries/fft_scratch.hpp"
#include "dry_cuda/libraries/measured_sizes.hpp"
#include "dry_cuda/libraries/sparse_scratch.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace maxbatch::dry {
namespace {

// Lengths with a large prime factor, and two that take a buffer for no visible reason: Note [Scratch of Fourier transforms].
constexpr int kMostDifferentTransforms = 60;

using Numbers = std::vector<std::int64_t>;

std::vector<std::vector<std::string>> lines_of(std::string const& file) {
  std::ifstream read(MAXBATCH_MEASURED_DIR "/" + file);
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(read, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    auto& last = lines.emplace_back();
    for (std::string word; words >> word;) last.push_back(word);
  }
  return lines;
}

std::vector<Numbers> numbers_of(std::string const& file) {
  std::vector<Numbers> lines;
  for (auto const& words : lines_of(file)) {
    auto& last = lines.emplace_back();
    for (auto const& word : words) last.push_back(std::stoll(word));
  }
  return lines;
}

std::int64_t gates_of(std::int64_t mode) { return mode == 2 ? 4 : mode == 3 ? 3 : 1; }

TEST(RecurrentNetwork, ItsWeightsLieWhereTheCardSays) {
  auto const lines = numbers_of("rnn_weights.txt");
  ASSERT_GT(lines.size(), 500U);
  for (auto const& line : lines) {
    RecurrentNetwork network;
    network.gates = gates_of(line[0]);
    network.directions = line[1] + 1;
    network.input = line[2];
    network.hidden = line[3];
    network.projected = line[4];
    network.layers = line[5];
    auto const place = network.place_of(line[6], line[7]);
    ASSERT_TRUE(place.matrix);
    EXPECT_EQ(place.matrix->offset * 4, line[8]);
    EXPECT_EQ(place.bias ? place.bias->offset * 4 : -1, line[9]);
    EXPECT_EQ(place.matrix->rows, line[10]);
    EXPECT_EQ(place.matrix->columns, line[11]);
  }
}

TEST(RecurrentNetwork, ItsScratchIsTheCards) {
  int compared = 0;
  for (auto const& line : numbers_of("rnn_sizes.txt")) {
    if (line[13] < 0) continue;  // refused on the card
    RecurrentNetwork network;
    network.gates = gates_of(line[0]);
    network.directions = line[1] + 1;
    network.element_bytes = line[2] == 1 ? 8 : line[2] == 0 ? 4 : 2;
    network.persistent = line[4] != 0 && line[2] != 9;
    network.input = line[5];
    network.hidden = line[6];
    network.projected = line[7];
    network.layers = line[8];
    SequenceBatch const batch{line[9], line[10]};
    auto const inference = scratch_of(network, batch, false);
    auto const training = scratch_of(network, batch, true);
    EXPECT_EQ(network.weight_elements() * network.element_bytes, line[12]);
    EXPECT_EQ(inference.reserve, line[14]);
    EXPECT_EQ(training.reserve, line[16]);
    if (network.projected == network.hidden) {
      EXPECT_NEAR(static_cast<double>(inference.workspace), static_cast<double>(line[13]),
                  0.006 * static_cast<double>(line[13]));
      EXPECT_NEAR(static_cast<double>(training.workspace), static_cast<double>(line[15]),
                  0.25 * static_cast<double>(line[15]));
    }
    ++compared;
  }
  EXPECT_GT(compared, 800);
}

TEST(FourierTransform, ItsScratchIsTheCardsForMostLengths) {
  int compared = 0;
  int different = 0;
  for (auto const& words : lines_of("cufft_sizes.txt")) {
    FourierTransform transform;
    transform.complex_bytes = words[0] == "half" ? 4 : words[0] == "float" ? 8 : 16;
    transform.kind = words[1] == "c2c"   ? FourierTransform::Kind::complex
                     : words[1] == "r2c" ? FourierTransform::Kind::real_to_complex
                                         : FourierTransform::Kind::complex_to_real;
    std::istringstream lengths(words[2]);
    for (std::string length; std::getline(lengths, length, 'x');) transform.lengths.push_back(std::stoll(length));
    transform.batch = std::stoll(words[3]);
    auto const on_card = std::stoll(words[4]);
    // Two primes that the card took in half precision against its documentation, and not in every direction.
    if (words[0] == "half" && (words[2] == "509" || words[2] == "1009")) continue;
    EXPECT_EQ(is_supported(transform), on_card >= 0) << words[2];
    if (on_card < 0) continue;
    ++compared;
    double const allowed = 0.02 * static_cast<double>(on_card);
    different += std::abs(static_cast<double>(scratch_of(transform) - on_card)) > allowed ? 1 : 0;
  }
  EXPECT_GT(compared, 1000);
  RecordProperty("different", different);
  EXPECT_LE(different, kMostDifferentTransforms);
}

std::int64_t bytes_of(std::string const& type) {
  if (type == "half" || type == "bfloat16") return 2;
  return type == "float" ? 4 : type == "complex-double" ? 16 : 8;
}

TEST(SparseProduct, ItsScratchIsTheCardsWhenItsProductsAreKnown) {
  int compared = 0;
  for (auto const& words : lines_of("sparse_products.txt")) {
    if (words[0] != "SpGEMM") continue;
    SparseProduct product;
    product.value_bytes = bytes_of(words[2]);
    product.index_bytes = std::stoll(words[3]) / 8;
    product.rows = std::stoll(words[4]);
    product.nonzeros = std::stoll(words[7]);
    product.products = std::stoll(words[11]);
    EXPECT_EQ(scratch_of_estimation(product), std::stoll(words[14])) << words[1] << ' ' << words[4] << ' ' << words[7];
    EXPECT_EQ(scratch_of_computation(product), std::stoll(words[15]))
        << words[1] << ' ' << words[4] << ' ' << words[11];
    ++compared;
  }
  EXPECT_GT(compared, 480);
}

TEST(SparseSystem, ItsScratchIsTheCards) {
  int compared = 0;
  for (auto const& words : lines_of("sparse_products.txt")) {
    if (words[0] != "SpSV" && words[0] != "SpSM") continue;
    SparseSystem system;
    system.value_bytes = bytes_of(words[1]);
    system.index_bytes = std::stoll(words[2]) / 8;
    system.rows = std::stoll(words[5]);
    system.nonzeros = std::stoll(words[6]);
    system.sides = std::stoll(words[7]);
    EXPECT_EQ(scratch_of(system), std::stoll(words[9]))
        << words[0] << ' ' << words[1] << ' ' << words[5] << ' ' << words[7];
    ++compared;
  }
  EXPECT_GT(compared, 600);
}

TEST(MeasuredSizes, AreExactWhereTheCardWasAsked) {
  auto const lines = lines_of("cusolver_sizes.txt");
  ASSERT_GT(lines.size(), 2000U);
  EXPECT_EQ(solver_sizes().find("Sgeqrf", 1000, 1000).on_card, 1548288);
  EXPECT_EQ(solver_sizes().find("Sgeqrf", 2000, 1000).on_card, 1548288);
  EXPECT_EQ(solver_sizes().find("Xsyevd:S", 64, 64).on_card, 508300);
  EXPECT_EQ(solver_sizes().find("Xgeev:S", 2048, 2048).on_host, 39911936);
  EXPECT_EQ(solver_sizes().find("XsyevBatched:S", 64, 64, 16).on_card, 8127040);
  EXPECT_EQ(solver_sizes().find("SsyevjBatched", 100, 100, 64).on_card, 916096);
}

TEST(MeasuredSizes, GrowBetweenAndBeyond) {
  auto const at = [](std::int64_t n) { return solver_sizes().find("Xsyevd:S", n, n).on_card; };
  EXPECT_GT(at(700), at(513));
  EXPECT_LT(at(700), at(1000));
  EXPECT_NEAR(static_cast<double>(at(4096)), 4 * static_cast<double>(at(2048)), 0.05 * static_cast<double>(at(4096)));
  EXPECT_EQ(solver_sizes().find("no such function", 10, 10).on_card, 0);
}

}  // namespace
}  // namespace maxbatch::dry
