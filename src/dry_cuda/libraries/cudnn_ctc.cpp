// cuDNN's connectionist temporal classification: the size of its scratch memory.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/libraries/real_library.hpp"
#include "dry_cuda/report/memory_sources.hpp"

#include <cudnn_adv.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace maxbatch::dry {
namespace {

/// measured/ctc_sizes.txt is what an H200 with cuDNN 9.19 said to 144 questions, of both algorithms: this is right in all.
cudnnStatus_t give_scratch(cudnnTensorDescriptor_t probabilities, std::int64_t longest_label, std::size_t* bytes) {
  int count = 0;
  int dimensions[3] = {};
  int strides[3] = {};
  cudnnDataType_t type{};
  auto const status =
      MAXBATCH_DRY_REAL(kCudnn, cudnnGetTensorNdDescriptor)(probabilities, 3, &type, &count, dimensions, strides);
  if (bytes == nullptr || status != CUDNN_STATUS_SUCCESS || count != 3) return CUDNN_STATUS_BAD_PARAM;
  std::int64_t const steps = dimensions[0];
  std::int64_t const batch = dimensions[1];
  std::int64_t const alphabet = dimensions[2];
  *bytes = static_cast<std::size_t>(batch * (4 * steps * alphabet + 8 * steps + 12 + longest_label * (16 * steps + 8)));
  expect_scratch(certain(MemorySource::rule, static_cast<std::int64_t>(*bytes)));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetCTCLossWorkspaceSize_v8(cudnnHandle_t, cudnnCTCLossAlgo_t,
                                                                 cudnnCTCLossDescriptor_t descriptor,
                                                                 cudnnTensorDescriptor_t probabilities,
                                                                 cudnnTensorDescriptor_t, std::size_t* bytes) {
  cudnnDataType_t type{};
  cudnnLossNormalizationMode_t mode{};
  cudnnCTCGradMode_t gradient{};
  int longest_label = 0;
  auto const status =
      MAXBATCH_DRY_REAL(kCudnn, cudnnGetCTCLossDescriptor_v9)(descriptor, &type, &mode, &gradient, &longest_label);
  return status == CUDNN_STATUS_SUCCESS ? give_scratch(probabilities, longest_label, bytes) : status;
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetCTCLossWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t probabilities,
                                                              cudnnTensorDescriptor_t, int const*,
                                                              int const* label_lengths, int const*, cudnnCTCLossAlgo_t,
                                                              cudnnCTCLossDescriptor_t, std::size_t* bytes) {
  int count = 0;
  int dimensions[3] = {};
  int strides[3] = {};
  cudnnDataType_t type{};
  auto const status =
      MAXBATCH_DRY_REAL(kCudnn, cudnnGetTensorNdDescriptor)(probabilities, 3, &type, &count, dimensions, strides);
  if (status != CUDNN_STATUS_SUCCESS || label_lengths == nullptr || dimensions[1] < 1) return CUDNN_STATUS_BAD_PARAM;
  return give_scratch(probabilities, *std::max_element(label_lengths, label_lengths + dimensions[1]), bytes);
}
