#pragma once

#include "dry_cuda/report/site_record.hpp"

#include <cstddef>
#include <cstdint>

namespace maxbatch::dry {

/// Between the dry card and the library of data policies, which it loads. Plain data and C functions: they are of one build,
/// but the library is one per version of LibTorch.

/// What the library answers with.
struct PolicyHooks {
  /// A copy from device to host on this thread: fills `host` and says true, or false: zeros, or what the card knows.
  bool (*answer_read)(void* host, void const* device, std::size_t bytes) = nullptr;
  /// Something on this thread has written device memory: a kernel, a copy, a fill.
  void (*device_memory_written)() = nullptr;
  /// A collective has written device memory of whatever tensors, which no operator's schema says.
  void (*anything_written)() = nullptr;
};

/// What the dry card offers.
struct PolicySurroundings {
  void (*install)(PolicyHooks const* hooks) = nullptr;  ///< they must live as long as the process
  SiteRecords* sites = nullptr;                         ///< in the report
  /// Says a sentence on standard error and ends the process.
  void (*end_with_sentence)(char const* sentence) = nullptr;
};

/// The library's only symbol: null, or one sentence that says why there will be no policies.
using StartPolicies = char const* (*)(PolicySurroundings const*);
constexpr char const* kStartPolicies = "maxbatch_start_data_policies";

}  // namespace maxbatch::dry
