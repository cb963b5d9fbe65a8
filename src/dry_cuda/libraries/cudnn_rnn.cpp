// cuDNN's recurrent networks: where their weights lie, and how much scratch memory they take. Descriptors are the real
// library's; what it answers only with a device is answered here.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/libraries/cudnn_rnn_sizes.hpp"
#include "dry_cuda/libraries/real_library.hpp"
#include "dry_cuda/report/call_notes.hpp"
#include "dry_cuda/report/memory_sources.hpp"

#include <cudnn_adv.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace maxbatch::dry {
namespace {

std::optional<RecurrentNetwork> network_of(cudnnRNNDescriptor_t descriptor) {
  cudnnRNNAlgo_t algorithm{};
  cudnnRNNMode_t mode{};
  cudnnRNNBiasMode_t bias{};
  cudnnDirectionMode_t direction{};
  cudnnRNNInputMode_t input_mode{};
  cudnnDataType_t type{};
  cudnnDataType_t precision{};
  cudnnMathType_t math{};
  std::int32_t input = 0;
  std::int32_t hidden = 0;
  std::int32_t projected = 0;
  std::int32_t layers = 0;
  cudnnDropoutDescriptor_t dropout = nullptr;
  std::uint32_t flags = 0;
  auto const status = MAXBATCH_DRY_REAL(kCudnn, cudnnGetRNNDescriptor_v8)(
      descriptor, &algorithm, &mode, &bias, &direction, &input_mode, &type, &precision, &math, &input, &hidden,
      &projected, &layers, &dropout, &flags);
  if (status != CUDNN_STATUS_SUCCESS) return std::nullopt;
  RecurrentNetwork network;
  network.gates = mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1;
  network.biases = bias == CUDNN_RNN_NO_BIAS ? 0 : bias == CUDNN_RNN_DOUBLE_BIAS ? 2 : 1;
  network.bias_of_input = bias != CUDNN_RNN_SINGLE_REC_BIAS;
  network.directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1;
  // In bfloat16 the persistent algorithms took no more than the standard one.
  network.persistent = algorithm != CUDNN_RNN_ALGO_STANDARD && type != CUDNN_DATA_BFLOAT16;
  network.skips_input = input_mode == CUDNN_SKIP_INPUT;
  network.element_bytes = type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
  network.input = input;
  network.hidden = hidden;
  network.projected = projected;
  network.layers = layers;
  return network;
}

std::optional<SequenceBatch> batch_of(cudnnRNNDataDescriptor_t descriptor) {
  cudnnDataType_t type{};
  cudnnRNNDataLayout_t layout{};
  int steps = 0;
  int batch = 0;
  int width = 0;
  double padding = 0;  // large enough for any type
  auto const status = MAXBATCH_DRY_REAL(kCudnn, cudnnGetRNNDataDescriptor)(descriptor, &type, &layout, &steps, &batch,
                                                                           &width, 0, nullptr, &padding);
  if (status != CUDNN_STATUS_SUCCESS) return std::nullopt;
  return SequenceBatch{steps, batch};
}

cudnnStatus_t describe(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, std::int64_t rows,
                       std::int64_t columns) {
  if (descriptor == nullptr) return CUDNN_STATUS_SUCCESS;
  int const dimensions[3] = {1, static_cast<int>(rows), static_cast<int>(columns)};
  int const strides[3] = {static_cast<int>(rows * columns), static_cast<int>(columns), 1};
  return MAXBATCH_DRY_REAL(kCudnn, cudnnSetTensorNdDescriptor)(descriptor, type, 3, dimensions, strides);
}

void* at_offset(void const* base, std::int64_t elements, std::int64_t element_bytes) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(base) +
                                 static_cast<std::uintptr_t>(elements * element_bytes));
}

cudnnDataType_t type_of_bytes(std::int64_t element_bytes) {
  // The descriptors say how many elements lie where; half and bfloat16 are the same there.
  return element_bytes == 8 ? CUDNN_DATA_DOUBLE : element_bytes == 4 ? CUDNN_DATA_FLOAT : CUDNN_DATA_HALF;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t descriptor,
                                                            std::size_t* bytes) {
  auto const network = network_of(descriptor);
  if (!network || bytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *bytes = static_cast<std::size_t>(network->weight_elements() * network->element_bytes);
  return CUDNN_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t, cudnnRNNDescriptor_t descriptor,
                                                         std::int32_t pseudo_layer, std::size_t, void const* weights,
                                                         std::int32_t linear, cudnnTensorDescriptor_t matrix_descriptor,
                                                         void** matrix, cudnnTensorDescriptor_t bias_descriptor,
                                                         void** bias) {
  auto const network = network_of(descriptor);
  if (!network || pseudo_layer < 0 || pseudo_layer >= network->pseudo_layers() || linear < 0)
    return CUDNN_STATUS_BAD_PARAM;
  auto const place = network->place_of(pseudo_layer, linear);
  auto const type = type_of_bytes(network->element_bytes);
  if (matrix != nullptr) {
    *matrix = place.matrix ? at_offset(weights, place.matrix->offset, network->element_bytes) : nullptr;
    if (place.matrix) {
      auto const status = describe(matrix_descriptor, type, place.matrix->rows, place.matrix->columns);
      if (status != CUDNN_STATUS_SUCCESS) return status;
    }
  }
  if (bias != nullptr) {
    *bias = place.bias ? at_offset(weights, place.bias->offset, network->element_bytes) : nullptr;
    if (place.bias) return describe(bias_descriptor, type, place.bias->rows, 1);
  }
  return CUDNN_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t, cudnnRNNDescriptor_t descriptor,
                                                           cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t data,
                                                           std::size_t* workspace, std::size_t* reserve) {
  auto const network = network_of(descriptor);
  auto const batch = batch_of(data);
  if (!network || !batch) return CUDNN_STATUS_BAD_PARAM;
  maxbatch_dry_note_defaulted("cudnnGetRNNTempSpaceSizes");
  auto const bytes = scratch_of(*network, *batch, mode == CUDNN_FWD_MODE_TRAINING);
  if (workspace != nullptr) expect_scratch(certain(MemorySource::estimate, bytes.workspace));
  if (reserve != nullptr) expect_scratch(certain(MemorySource::rule, bytes.reserve));
  if (workspace != nullptr) *workspace = static_cast<std::size_t>(bytes.workspace);
  if (reserve != nullptr) *reserve = static_cast<std::size_t>(bytes.reserve);
  return CUDNN_STATUS_SUCCESS;
}
