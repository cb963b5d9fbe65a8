// cuDNN's batch normalisation and dropout of its older interface, as LibTorch uses them.
#include "dry_cuda/card_profile.hpp"
#include "dry_cuda/entry_point.hpp"

#include <cudnn_ops.h>

#include <cstddef>

namespace maxbatch::dry {
namespace {

/// The scratch sizes of batch normalisation without a fused activation. All recordings of this project (H200, cuDNN 9.19) have
/// 0 here, in both layouts and every type.
cudnnStatus_t no_scratch(std::size_t* bytes) {
  if (bytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnActivationDescriptor_t, std::size_t* bytes) {
  return no_scratch(bytes);
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnActivationDescriptor_t, std::size_t* bytes) {
  return no_scratch(bytes);
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnActivationDescriptor_t, cudnnTensorDescriptor_t,
    std::size_t* bytes) {
  return no_scratch(bytes);
}
