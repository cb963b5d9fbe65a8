#pragma once

#include <maxbatch/config.hpp>

#include <cstdint>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// An address in device memory.
using DeviceAddress = std::uint64_t;

/// Half open.
struct DeviceAddressRange {
  DeviceAddress begin = 0;
  DeviceAddress end = 0;

  std::uint64_t size() const { return end - begin; }
};

/// The value of a cudaStream_t. Free blocks of different streams are ordered by it.
using StreamHandle = std::uint64_t;
constexpr StreamHandle kDefaultStream = 0;

/// LibTorch's MempoolId_t. {0, 0}: the default pools.
struct PrivatePoolId {
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  bool is_default() const { return first == 0 && second == 0; }
  friend bool operator==(PrivatePoolId a, PrivatePoolId b) { return a.first == b.first && a.second == b.second; }
  friend bool operator!=(PrivatePoolId a, PrivatePoolId b) { return !(a == b); }
  friend bool operator<(PrivatePoolId a, PrivatePoolId b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  }
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
