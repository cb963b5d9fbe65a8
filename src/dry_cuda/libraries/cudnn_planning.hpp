#pragma once

#include "dry_cuda/libraries/convolution_question.hpp"

#include <cudnn_backend.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace maxbatch::dry {

/// What a program tells cuDNN's descriptors on the way to the plan of a single convolution, so that the plan's workspace can be
/// looked up: tensors and convolution -> operation -> graph -> heuristics -> engine configurations -> plan. Descriptors of
/// anything else are known by their type only.
///
/// Threads: any; a descriptor is one thread's at a time, as cuDNN asks.
class CudnnPlanning {
 public:
  /// What sorts out an engine configuration: cuDNN's numerical notes, as far as LibTorch's filters look at them.
  struct EngineNotes {
    bool tensor_core = false;
    bool down_converts_inputs = false;
    bool nondeterministic = false;
  };

  void created(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type);
  void destroyed(cudnnBackendDescriptor_t descriptor);
  void attribute_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, std::int64_t count,
                     void const* value);
  /// The heuristics have filled these configurations, best first. `notes` answer them one by one.
  void configurations_found(cudnnBackendDescriptor_t heuristics, cudnnBackendDescriptor_t const* configurations,
                            std::vector<EngineNotes> const& notes);
  /// The program has read the engine of a configuration, which it does for each of the notes that it sorts by.
  void engine_read(cudnnBackendDescriptor_t configuration);
  void plan_finalized(cudnnBackendDescriptor_t plan);

  std::optional<cudnnBackendDescriptorType_t> type_of(cudnnBackendDescriptor_t descriptor) const;

  /// Whether configurations of these heuristics will be asked for: whether their notes are worth reading.
  bool plans_a_convolution(cudnnBackendDescriptor_t heuristics) const;

  struct PlannedConvolution {
    std::vector<std::string> questions;  ///< of which any may be the one; more than one where the engines do not tell
    std::size_t rank = 0;                ///< how many plans were made before it for the same graph
  };
  /// What an answer for this plan can be looked up by; nothing if it is no plan of a single convolution.
  std::optional<PlannedConvolution> convolution_of(cudnnBackendDescriptor_t plan) const;

 private:
  /// A graph of a single convolution, and what has been seen of the plans for it.
  struct Graph {
    ConvolutionQuestion question;
    std::vector<EngineNotes> candidates;  ///< of all heuristics asked so far, in their order
    std::vector<int> reads;               ///< how often the program's filter read each candidate's engine
    std::size_t plans_made = 0;
  };

  struct Descriptor {
    cudnnBackendDescriptorType_t type{};
    // Of a tensor.
    std::vector<std::int64_t> dimensions, strides;
    cudnnDataType_t data_type{};
    // Of a convolution.
    std::vector<std::int64_t> stride, padding_before, padding_after, dilation;
    // Of a convolution's operation.
    cudnnBackendDescriptor_t input{}, filter{}, convolution{};
    // Of heuristics, engines, configurations and plans.
    std::shared_ptr<Graph> graph;
    std::size_t candidate = 0;  ///< which of the graph's candidates a configuration, or a plan, is
    bool is_candidate = false;  ///< not: somebody put the engine together without heuristics
    std::size_t plan_rank = 0;
  };

  static std::optional<bool> allows_tf32(Graph const& graph);

  Descriptor const* find(cudnnBackendDescriptor_t descriptor) const;
  std::shared_ptr<Graph> graph_of_operation(cudnnBackendDescriptor_t operation) const;

  mutable std::mutex mutex_;
  std::unordered_map<cudnnBackendDescriptor_t, Descriptor> descriptors_;
};

}  // namespace maxbatch::dry
