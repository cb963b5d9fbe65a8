// cuDNN's batch normalisation of its older interface, as LibTorch uses it.
#include "dry_cuda/card_profile.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/libraries/real_library.hpp"
#include "dry_cuda/report/call_notes.hpp"
#include "dry_cuda/report/memory_sources.hpp"

#include <cudnn_ops.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace maxbatch::dry {
namespace {

// Note [Scratch of batch normalisation].
// Without channels last (CUDNN_BATCHNORM_SPATIAL) cuDNN takes none. With it (CUDNN_BATCHNORM_SPATIAL_PERSISTENT) it keeps partial
// sums of tiles of rows and channels. measured/bn_sizes.txt is what an H200 with cuDNN 9.19 said to 1,276 tensors in float and
// half precision: the rule below is right to the byte in all of them.
struct Tiles {
  std::int64_t rows_forward;
  std::int64_t rows_backward;
  std::int64_t channels;
};

struct Tensor {
  cudnnDataType_t type{};
  std::int64_t rows = 1;  ///< values of a channel
  std::int64_t channels = 1;
};

std::optional<Tensor> tensor_of(cudnnTensorDescriptor_t descriptor) {
  constexpr int kMostDimensions = CUDNN_DIM_MAX;
  int count = 0;
  int dimensions[kMostDimensions] = {};
  int strides[kMostDimensions] = {};
  Tensor tensor;
  auto const status = MAXBATCH_DRY_REAL(kCudnn, cudnnGetTensorNdDescriptor)(descriptor, kMostDimensions, &tensor.type,
                                                                            &count, dimensions, strides);
  if (status != CUDNN_STATUS_SUCCESS || count < 2) return std::nullopt;
  tensor.channels = dimensions[1];
  for (int i = 0; i < count; ++i) tensor.rows *= i == 1 ? 1 : dimensions[i];
  return tensor;
}

Tiles tiles_of(Tensor const& tensor) {
  bool const half = tensor.type == CUDNN_DATA_HALF;
  if (tensor.channels % 4 == 0) return {half ? 160 : 64, 96, 64};
  return {half ? 640 : 256, 384, 4};
}

std::int64_t tiles(std::int64_t count, std::int64_t of) { return (count + of - 1) / of; }

cudnnStatus_t give_scratch(cudnnBatchNormMode_t mode, cudnnTensorDescriptor_t x, bool forward, std::size_t* bytes) {
  auto const tensor = tensor_of(x);
  if (bytes == nullptr || !tensor) return CUDNN_STATUS_BAD_PARAM;
  *bytes = 0;
  if (mode != CUDNN_BATCHNORM_SPATIAL_PERSISTENT) return CUDNN_STATUS_SUCCESS;
  auto const tile = tiles_of(*tensor);
  std::int64_t const across = tiles(tensor->channels, tile.channels);
  std::int64_t const down = tiles(tensor->rows, forward ? tile.rows_forward : tile.rows_backward);
  // Two sums a channel, in float; forward also a count a tile.
  std::int64_t const of_tile = 8 * tile.channels + (forward ? 4 : 0);
  *bytes = static_cast<std::size_t>((forward ? 1072 : 1056) + 4 * across + of_tile * across * down);
  expect_scratch(certain(MemorySource::rule, static_cast<std::int64_t>(*bytes)));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t,
    cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnActivationDescriptor_t, std::size_t* bytes) {
  return give_scratch(mode, x, true, bytes);
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t,
    cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnActivationDescriptor_t, std::size_t* bytes) {
  return give_scratch(mode, x, false, bytes);
}

// Only a fused activation keeps something until the backward pass.
MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t operations, cudnnActivationDescriptor_t,
    cudnnTensorDescriptor_t, std::size_t* bytes) {
  if (bytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *bytes = 0;
  if (operations != CUDNN_BATCHNORM_OPS_BN) {
    return refuse("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", CUDNN_STATUS_NOT_SUPPORTED);
  }
  return CUDNN_STATUS_SUCCESS;
}
