#pragma once

#include "dry_cuda/card_profile.hpp"

#include <cstdint>
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

/// Makes the context of the device, reads its properties and watches the free memory fall through a cuBLAS handle, a matrix
/// product and a few allocations. Nobody else should use the card meanwhile: what others hold counts as the context's.
/// Must be the first use of the device in the process.  Leaves the context and nothing else.
/// Throws: std::runtime_error, one sentence, where there is no CUDA, no driver, or no such device.
CardReading read_card(int device);

/// The whole profile as a file holds it, which says where each figure is from.
std::string card_reading_text(CardReading const& reading);

}  // namespace maxbatch::dry
