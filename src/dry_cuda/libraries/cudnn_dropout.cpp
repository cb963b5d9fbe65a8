// cuDNN's dropout of its older interface, as far as recurrent networks in LibTorch use it: the random state's size.
#include "dry_cuda/card_profile.hpp"
#include "dry_cuda/entry_point.hpp"

#include <cudnn_ops.h>

#include <cstddef>

// 24 bytes for each thread that can be resident: 6,488,064 on an H200 with cuDNN 9.19 (measured).
MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t, std::size_t* bytes) {
  if (bytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  auto const& card = maxbatch::dry::card_profile();
  *bytes = std::size_t{24} * static_cast<std::size_t>(card.multiprocessors) *
           static_cast<std::size_t>(card.threads_per_multiprocessor);
  return CUDNN_STATUS_SUCCESS;
}

// The real one would draw the state on a device. The descriptor stays as it was made, without dropout: only kernels read it.
MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t, cudnnHandle_t, float, void*,
                                                           std::size_t, unsigned long long) {
  return CUDNN_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t, cudnnHandle_t, float, void*,
                                                               std::size_t, unsigned long long) {
  return CUDNN_STATUS_SUCCESS;
}
