#pragma once

#include <maxbatch/training/recipe.hpp>

#include <c10/core/Device.h>

namespace maxbatch::models {

/// TF32 in matrix products and convolutions of a CUDA device, on in `tf32` and off in every other precision, until
/// destruction. For a whole step: a backward pass reads the flags when it runs, not those of its forward pass, and
/// LibTorch's own setting is on for convolutions and off for matrix products.
/// Threads: any. The flags are the process's: who wants what others want meanwhile joins them, and the last one puts the flags
/// back; who wants the other thing waits until they are through.
class Tf32Guard {
 public:
  Tf32Guard(Precision precision, c10::Device device);
  ~Tf32Guard();
  Tf32Guard(Tf32Guard const&) = delete;
  Tf32Guard& operator=(Tf32Guard const&) = delete;

 private:
  bool acts_;
};

}  // namespace maxbatch::models
