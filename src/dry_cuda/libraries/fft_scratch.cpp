#include "dry_cuda/libraries/fft_scratch.hpp"

#include <algorithm>

namespace maxbatch::dry {
namespace {

// Note [Scratch of Fourier transforms].
// cuFFT does not document it. measured/ask_sizes.py asked an H200: transforms of two and three dimensions take none, and of one
// dimension none up to 16,384 where all prime factors are small. Longer ones go through a buffer of the whole batch, and a large
// prime factor needs a longer convolution. The lengths 500 and 10,000 took a buffer where 1,000 and 100 took none, which the
// rule below does not know.
constexpr std::int64_t kLongestInOnePass = 16384;
constexpr std::int64_t kLongestHalfInOnePass = 8192;
constexpr std::int64_t kLargestPrimeInOnePass = 4096;
constexpr std::int64_t kLargestSmallPrime = 127;

std::int64_t largest_prime_factor(std::int64_t n) {
  std::int64_t largest = 1;
  for (std::int64_t factor = 2; factor * factor <= n; ++factor) {
    while (n % factor == 0) {
      largest = factor;
      n /= factor;
    }
  }
  return std::max(largest, n);
}

bool is_power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

}  // namespace

bool is_supported(FourierTransform const& transform) {
  return transform.complex_bytes > 4 ||
         std::all_of(transform.lengths.begin(), transform.lengths.end(), is_power_of_two);
}

std::int64_t scratch_of(FourierTransform const& transform) {
  if (transform.lengths.size() != 1) return 0;
  std::int64_t const length = transform.lengths[0];
  std::int64_t const prime = largest_prime_factor(length);
  bool const is_complex = transform.kind == FourierTransform::Kind::complex;
  // Two real transforms are done as one complex one.
  std::int64_t const batch = is_complex ? transform.batch : (transform.batch + 1) / 2;
  if (is_complex && prime > kLargestPrimeInOnePass) return transform.complex_bytes * batch * length * 21 / 5;
  if (!is_complex && prime > kLargestSmallPrime) {
    return transform.complex_bytes * batch * (prime > kLargestPrimeInOnePass ? length * 26 / 5 : 2 * length + 3);
  }
  if (length <= (transform.complex_bytes == 4 ? kLongestHalfInOnePass : kLongestInOnePass)) return 0;
  return transform.complex_bytes * transform.batch * (is_complex ? length : length / 2 + 1);
}

}  // namespace maxbatch::dry
