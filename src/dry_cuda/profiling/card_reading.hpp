#pragma once

#include "dry_cuda/card_profile.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace maxbatch::dry {

/// A card that is present, as the runtime describes it and as its driver was seen to take memory.
struct CardReading {
  CardProfile profile;
  int driver_version = 0;  ///< 13000: CUDA 13.0
  /// What was seen that a dry card does not do, a sentence each; empty on the card that its rules were found on.
  std::vector<std::string> remarks;
};

/// Prepares, on the device that is read, the first kernel of the process that has others beside it which assert: returns what
/// launches it and waits for it. Only LibTorch has such kernels, and nothing here knows it.
using AssertingKernel = std::function<std::function<void()>()>;

/// Makes the context of the device, reads its properties and watches the free memory fall through an asserting kernel, a handle
/// of cuBLAS and a few allocations. Nobody else should use the card meanwhile: what others hold counts as the context's.
/// Must be the first use of the device in the process.  Leaves the context, and what the kernel leaves.
/// Throws: std::runtime_error, one sentence, where there is no CUDA, no driver, or no such device; what the kernel throws.
CardReading read_card(int device, AssertingKernel const& asserting_kernel);

/// The whole profile as a file holds it, which says where each figure is from.
std::string card_reading_text(CardReading const& reading);

}  // namespace maxbatch::dry
