#include "value_bytes.hpp"

#include <c10/core/ScalarType.h>
#include <c10/util/TypeCast.h>

#include <cstring>

namespace maxbatch::dry {
namespace {

/// Calls `work` with a null pointer to the type; false where the type is none of numbers.
template <typename Work>
bool with_type(at::ScalarType type, Work const& work) {
  switch (type) {
#define MAXBATCH_CASE(cpp_type, name) \
  case at::ScalarType::name: work(static_cast<cpp_type*>(nullptr)); return true;
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(MAXBATCH_CASE)
#undef MAXBATCH_CASE
    default: return false;
  }
}

}  // namespace

bool put_value(void* host, std::size_t bytes, at::ScalarType type, double value) {
  auto fits = true;
  auto const has_type = with_type(type, [&](auto* null) {
    using Element = std::remove_pointer_t<decltype(null)>;
    if constexpr (std::is_constructible_v<Element, double> || std::is_arithmetic_v<Element>) {
      fits = bytes % sizeof(Element) == 0;
      auto const element = c10::convert<Element>(value);
      for (std::size_t at = 0; fits && at < bytes; at += sizeof(Element)) {
        std::memcpy(static_cast<char*>(host) + at, &element, sizeof(Element));
      }
    } else {
      fits = false;
    }
  });
  return has_type && fits;
}

bool put_integer(void* host, std::size_t bytes, std::int64_t value) {
  if (bytes != 1 && bytes != 4 && bytes != 8) { return false; }
  std::memcpy(host, &value, bytes);  // the low bytes come first on every machine that CUDA runs on
  return true;
}

double value_of(std::string const& bytes, at::ScalarType type) {
  auto value = 0.0;
  with_type(type, [&](auto* null) {
    using Element = std::remove_pointer_t<decltype(null)>;
    if constexpr (std::is_convertible_v<Element, double>) {
      if (bytes.size() >= sizeof(Element)) {
        Element element{};
        std::memcpy(&element, bytes.data(), sizeof(Element));
        value = static_cast<double>(element);
      }
    }
  });
  return value;
}

}  // namespace maxbatch::dry
