#pragma once

#include <maxbatch/training/recipe.hpp>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace maxbatch::models {

/// bf16 and fp16 by autocast, until destruction; in the other precisions no autocast. For a forward pass: its backward pass
/// follows the types that it finds.
/// Like Python's `torch.autocast`, the cast weights that autocast caches are dropped at the end of the outermost guard:
/// they are memory that must not outlive the step, on the way out of an exception either.
/// Threads: autocast is per thread.
class AutocastGuard {
 public:
  AutocastGuard(Precision precision, c10::Device device);
  ~AutocastGuard();
  AutocastGuard(AutocastGuard const&) = delete;
  AutocastGuard& operator=(AutocastGuard const&) = delete;

 private:
  c10::DeviceType device_type_;
  bool autocast_before_;
  c10::ScalarType dtype_before_;
};

}  // namespace maxbatch::models
