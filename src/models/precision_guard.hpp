#pragma once

#include <maxbatch/training/recipe.hpp>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace maxbatch::models {

/// Runs what follows in a precision, until destruction: bf16 and fp16 by autocast, tf32 by LibTorch's flags, fp32 with neither.
/// Like Python's `torch.autocast`, the cast weights that autocast caches are dropped at the end of the outermost guard:
/// they are memory that must not outlive the step, on the way out of an exception either.
/// Threads: autocast is per thread, the TF32 flags are the process's.
class PrecisionGuard {
 public:
  PrecisionGuard(Precision precision, c10::Device device);
  ~PrecisionGuard();
  PrecisionGuard(PrecisionGuard const&) = delete;
  PrecisionGuard& operator=(PrecisionGuard const&) = delete;

 private:
  c10::DeviceType device_type_;
  bool autocast_before_;
  c10::ScalarType dtype_before_;
  bool tf32_matmul_before_ = false;
  bool tf32_cudnn_before_ = false;
};

}  // namespace maxbatch::models
