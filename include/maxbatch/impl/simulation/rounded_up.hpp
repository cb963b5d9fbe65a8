#pragma once

#include <maxbatch/config.hpp>

#include <cstdint>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

constexpr std::uint64_t rounded_up(std::uint64_t value, std::uint64_t granule) {
  return (value + granule - 1) / granule * granule;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
