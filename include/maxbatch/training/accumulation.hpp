#pragma once

#include <cstdint>

namespace maxbatch {

/// How a wanted effective batch is made of micro-batches that fit: `batch_size * count` samples a step.
struct AccumulationPlan {
  std::int64_t batch_size = 0;
  std::int64_t count = 0;
  bool batch_size_ran = false;  ///< that very size was tried and fitted; otherwise it is below one that did
};

}  // namespace maxbatch
