#pragma once

#include <maxbatch/config.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// An amount of memory. Not interchangeable with a count of blocks, samples or allocations.
struct Bytes {
  std::int64_t count = 0;

  friend constexpr bool operator==(Bytes a, Bytes b) { return a.count == b.count; }
  friend constexpr bool operator!=(Bytes a, Bytes b) { return a.count != b.count; }
  friend constexpr bool operator<(Bytes a, Bytes b) { return a.count < b.count; }
  friend constexpr bool operator<=(Bytes a, Bytes b) { return a.count <= b.count; }
  friend constexpr bool operator>(Bytes a, Bytes b) { return a.count > b.count; }
  friend constexpr bool operator>=(Bytes a, Bytes b) { return a.count >= b.count; }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes{a.count - b.count}; }
};

/// What is left of `limit` once `used` is taken; zero when nothing is.
constexpr Bytes headroom(Bytes limit, Bytes used) {
  return used.count < limit.count ? Bytes{limit.count - used.count} : Bytes{0};
}

namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n)}; }
constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n) << 10}; }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n) << 20}; }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n) << 30}; }
}  // namespace literals

/// For people: "512 B", "1.5 KiB", "10,700 MiB"; exact when the amount is a whole number of the unit, else one decimal.
std::string to_string(Bytes amount);

/// Reads "10700MiB", "1.5 GiB", "512", "12 GB" (decimal units are powers of 1000; a bare number is bytes).
/// None when the text is not an amount, is negative, or does not fit into 63 bits.
std::optional<Bytes> parse_bytes(std::string_view text);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/bytes_inl.hpp>
#endif
