#include "dry_cuda/libraries/sparse_scratch.hpp"

#include <algorithm>

namespace maxbatch::dry {
namespace {

// Note [Scratch of products of two sparse matrices].
// cuSPARSE does not document it. measured/sparse_products.cpp asked an H200 (cuSPARSE 12.6.3) about 497 products, over patterns, sides,
// types and widths of an index, and about 608 triangular systems, and these rules give every answer to the byte. A product's buffers hold,
// per product of two elements, two indices and a value before and after sorting, and beside them what the sorting, a prefix sum and a sum
// by keys want for themselves, of which the largest counts, as they use it one after the other. Only the count of products depends
// on the data.
constexpr std::int64_t kAlignment = 256;

std::int64_t parts(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

std::int64_t aligned(std::int64_t bytes) { return parts(bytes, kAlignment) * kAlignment; }

/// A prefix sum over so many numbers, in tiles whose states are kept, those before the first included.
std::int64_t scratch_of_prefix_sum(std::int64_t count, std::int64_t tile) {
  constexpr std::int64_t kStateBytes = 16;
  constexpr std::int64_t kStatesBefore = 32;
  return aligned((parts(count, tile) + kStatesBefore) * kStateBytes);
}

}  // namespace

std::int64_t scratch_of_estimation(SparseProduct const& product) {
  constexpr std::int64_t kTile = 896;
  constexpr std::int64_t kRest = 311;
  return product.nonzeros * (product.index_bytes + 8) + scratch_of_prefix_sum(product.nonzeros, kTile) + kRest;
}

std::int64_t scratch_of_computation(SparseProduct const& product) {
  auto const index = product.index_bytes;
  auto const value = product.value_bytes;
  constexpr std::int64_t kTile = 768;
  constexpr std::int64_t kKeysTile = 1024;
  auto const prefix_sum = scratch_of_prefix_sum(product.products, kTile) + 4391;
  auto const by_keys = (2 * index + std::max(index, value)) * (parts(product.products, kKeysTile) + 1) + 4112;
  // Few rows are sorted in one block's own memory. Where few end and many begin lies somewhere between 500 and 1,000 rows, and
  // between 30,000 and 100,000.
  constexpr std::int64_t kMostRowsInABlock = 767;
  constexpr std::int64_t kManyRows = 65536;
  auto const rows = product.rows <= kMostRowsInABlock
                        ? 0
                        : 2 * aligned(product.rows * 4) + 5903 + (product.rows > kManyRows ? 512 : 0);
  auto const own =
      product.products * (3 * index + 2 * value) + index * std::max(product.products, 2 * (product.rows + 1));
  return own + std::max({prefix_sum, by_keys, rows});
}

std::int64_t scratch_of(SparseSystem const& system) {
  auto const index = system.index_bytes;
  auto const value = system.value_bytes;
  constexpr std::int64_t kLeastCounters = 1024;
  auto const one_side = system.nonzeros * (index + value) + system.rows * (28 + 3 * index + 2 * value) +
                        std::max(index * (system.rows + 1), kLeastCounters) + 226 + 3 * index;
  constexpr std::int64_t kSidesOfABlock = 16;  // each has a counter for every row
  constexpr std::int64_t kCounterBytes = 4;
  auto const more_sides = value * (system.sides - 1) + kCounterBytes * (parts(system.sides, kSidesOfABlock) - 1);
  return one_side + system.rows * more_sides;
}

}  // namespace maxbatch::dry
