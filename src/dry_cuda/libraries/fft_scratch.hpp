#pragma once

#include <cstdint>
#include <vector>

namespace maxbatch::dry {

struct FourierTransform {
  enum class Kind { complex, real_to_complex, complex_to_real };

  Kind kind = Kind::complex;
  std::int64_t complex_bytes = 8;  ///< of one complex number: 4 in half, 8 in float, 16 in double precision
  std::vector<std::int64_t> lengths;
  std::int64_t batch = 1;
};

/// Whether cuFFT makes a plan for it: half precision takes powers of two only.
bool is_supported(FourierTransform const& transform);

/// Scratch memory of the plan. Units: bytes.
std::int64_t scratch_of(FourierTransform const& transform);

}  // namespace maxbatch::dry
