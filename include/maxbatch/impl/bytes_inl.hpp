#pragma once

#include <maxbatch/bytes.hpp>

#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

struct ByteUnit {
  std::string_view name;
  std::int64_t size;
};

constexpr std::array<ByteUnit, 13> kByteUnits = {{{"b", 1},
                                                  {"k", std::int64_t{1} << 10},
                                                  {"kib", std::int64_t{1} << 10},
                                                  {"kb", 1000},
                                                  {"m", std::int64_t{1} << 20},
                                                  {"mib", std::int64_t{1} << 20},
                                                  {"mb", 1000000},
                                                  {"g", std::int64_t{1} << 30},
                                                  {"gib", std::int64_t{1} << 30},
                                                  {"gb", 1000000000},
                                                  {"t", std::int64_t{1} << 40},
                                                  {"tib", std::int64_t{1} << 40},
                                                  {"tb", 1000000000000}}};

inline std::string with_thousands_separators(std::int64_t number) {
  std::string digits = std::to_string(number);
  auto const first = digits.front() == '-' ? std::size_t{1} : std::size_t{0};
  for (auto at = digits.size(); at > first + 3; at -= 3) { digits.insert(at - 3, ","); }
  return digits;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {
MAXBATCH_INLINE std::string to_string(Bytes amount) {
  // MiB up to tens of thousands, as memory tools print: 10,700 MiB is a familiar number and 10.4 GiB is not exact.
  struct Scale {
    std::int64_t size;
    char const* name;
  };
  constexpr std::array<Scale, 3> scales = {
      {{std::int64_t{1} << 20, " MiB"}, {std::int64_t{1} << 10, " KiB"}, {1, " B"}}};
  auto const magnitude = std::llabs(amount.count);
  for (auto const& scale : scales) {
    if (magnitude < scale.size && scale.size != 1) { continue; }
    if (amount.count % scale.size == 0) {
      return detail::with_thousands_separators(amount.count / scale.size) + scale.name;
    }
    auto const tenths = std::llround(static_cast<double>(magnitude) * 10.0 / static_cast<double>(scale.size));
    return (amount.count < 0 ? "-" : "") + detail::with_thousands_separators(tenths / 10) + "." +
           std::to_string(tenths % 10) + scale.name;
  }
  return "0 B";
}

MAXBATCH_INLINE std::optional<Bytes> parse_bytes(std::string_view text) {
  std::string compact;
  for (char const c : text) {
    if (c == ' ' || c == '_' || c == ',') { continue; }
    compact += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  std::size_t digits = 0;
  while (digits < compact.size() &&
         (std::isdigit(static_cast<unsigned char>(compact[digits])) != 0 || compact[digits] == '.')) {
    ++digits;
  }
  auto const number_text = compact.substr(0, digits);
  auto const unit_text = std::string_view(compact).substr(digits);
  if (number_text.empty()) { return std::nullopt; }
  std::int64_t unit = unit_text.empty() ? 1 : 0;
  for (auto const& known : detail::kByteUnits) {
    if (known.name == unit_text) { unit = known.size; }
  }
  if (unit == 0) { return std::nullopt; }
  if (number_text.find('.') == std::string::npos) {  // whole numbers stay exact
    std::int64_t whole = 0;
    for (char const c : number_text) {
      if (whole > (std::numeric_limits<std::int64_t>::max() - (c - '0')) / 10) { return std::nullopt; }
      whole = whole * 10 + (c - '0');
    }
    if (whole > std::numeric_limits<std::int64_t>::max() / unit) { return std::nullopt; }
    return Bytes{whole * unit};
  }
  char* end = nullptr;
  auto const value = std::strtod(number_text.c_str(), &end);
  if (end != number_text.c_str() + number_text.size()) { return std::nullopt; }
  auto const bytes = std::floor(value * static_cast<double>(unit));
  if (!(bytes < 9.2e18)) { return std::nullopt; }
  return Bytes{static_cast<std::int64_t>(bytes)};
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
