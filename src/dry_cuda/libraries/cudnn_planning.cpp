#include "dry_cuda/libraries/cudnn_planning.hpp"

#include <algorithm>

namespace maxbatch::dry {
namespace {

char const* name_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT: return "float";
    case CUDNN_DATA_HALF: return "half";
    case CUDNN_DATA_BFLOAT16: return "bfloat16";
    case CUDNN_DATA_DOUBLE: return "double";
    default: return "";  // no question: such types are quantised inference
  }
}

template <typename Value>
Value first_of(void const* value) {
  return *static_cast<Value const*>(value);
}

}  // namespace

void CudnnPlanning::created(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type) {
  std::lock_guard<std::mutex> const lock(mutex_);
  descriptors_[descriptor] = Descriptor{};
  descriptors_[descriptor].type = type;
}

void CudnnPlanning::destroyed(cudnnBackendDescriptor_t descriptor) {
  std::lock_guard<std::mutex> const lock(mutex_);
  descriptors_.erase(descriptor);
}

void CudnnPlanning::attribute_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                  std::int64_t count, void const* value) {
  if (count <= 0 || value == nullptr) return;
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const found = descriptors_.find(descriptor);
  if (found == descriptors_.end()) return;
  auto& known = found->second;
  auto const assign = [&](std::vector<std::int64_t>& to) {
    auto const* const numbers = static_cast<std::int64_t const*>(value);
    to.assign(numbers, numbers + count);
  };
  auto const other = [&] { return first_of<cudnnBackendDescriptor_t>(value); };
  auto const inherit = [&] {
    if (auto const* const from = find(other())) {
      known.graph = from->graph;
      known.candidate = from->candidate;
      known.is_candidate = from->is_candidate;
    }
  };
  switch (name) {
    case CUDNN_ATTR_TENSOR_DIMENSIONS: assign(known.dimensions); break;
    case CUDNN_ATTR_TENSOR_STRIDES: assign(known.strides); break;
    case CUDNN_ATTR_TENSOR_DATA_TYPE: known.data_type = first_of<cudnnDataType_t>(value); break;
    case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES: assign(known.stride); break;
    case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS: assign(known.padding_before); break;
    case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS: assign(known.padding_after); break;
    case CUDNN_ATTR_CONVOLUTION_DILATIONS: assign(known.dilation); break;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X: known.input = other(); break;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW: known.filter = other(); break;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC: known.convolution = other(); break;
    // The tensors may be gone by the time that a plan is made, so the question is put together here.
    case CUDNN_ATTR_OPERATIONGRAPH_OPS: known.graph = count == 1 ? graph_of_operation(other()) : nullptr; break;
    case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
    case CUDNN_ATTR_ENGINE_OPERATION_GRAPH:
    case CUDNN_ATTR_ENGINECFG_ENGINE: inherit(); break;
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
      inherit();
      if (known.is_candidate) --known.graph->reads[known.candidate];  // cudnn_frontend reads it once more for a plan
      break;
    default: break;
  }
}

CudnnPlanning::Descriptor const* CudnnPlanning::find(cudnnBackendDescriptor_t descriptor) const {
  auto const found = descriptors_.find(descriptor);
  return found == descriptors_.end() ? nullptr : &found->second;
}

std::shared_ptr<CudnnPlanning::Graph> CudnnPlanning::graph_of_operation(cudnnBackendDescriptor_t operation) const {
  auto const* const known = find(operation);
  if (known == nullptr) return nullptr;
  auto const* const input = find(known->input);
  auto const* const filter = find(known->filter);
  auto const* const convolution = find(known->convolution);
  if (input == nullptr || filter == nullptr || convolution == nullptr) return nullptr;
  if (convolution->padding_before != convolution->padding_after) return nullptr;
  auto graph = std::make_shared<Graph>();
  auto& question = graph->question;
  switch (known->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      question.direction = ConvolutionQuestion::Direction::forward;
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      question.direction = ConvolutionQuestion::Direction::backward_data;
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      question.direction = ConvolutionQuestion::Direction::backward_filter;
      break;
    default: return nullptr;
  }
  question.input = input->dimensions;
  question.filter = filter->dimensions;
  question.stride = convolution->stride;
  question.padding = convolution->padding_before;
  question.dilation = convolution->dilation;
  question.type = name_of(input->data_type);
  if (!question.is_complete()) return nullptr;
  // One channel, or one pixel, lies the same in both layouts, and is called contiguous.
  question.channels_last =
      input->strides.size() > 1 && input->strides[1] == 1 && input->dimensions[1] > 1 && !question.has_one_pixel();
  return graph;
}

void CudnnPlanning::configurations_found(cudnnBackendDescriptor_t heuristics,
                                         cudnnBackendDescriptor_t const* configurations,
                                         std::vector<EngineNotes> const& notes) {
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const* const source = find(heuristics);
  if (source == nullptr || source->graph == nullptr) return;
  auto const graph = source->graph;
  for (std::size_t i = 0; i < notes.size(); ++i) {
    auto const found = descriptors_.find(configurations[i]);
    if (found == descriptors_.end()) continue;
    found->second.graph = graph;
    found->second.candidate = graph->candidates.size();
    found->second.is_candidate = true;
    graph->candidates.push_back(notes[i]);
    graph->reads.push_back(0);
  }
}

void CudnnPlanning::engine_read(cudnnBackendDescriptor_t configuration) {
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const* const known = find(configuration);
  if (known == nullptr || known->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || known->graph == nullptr) return;
  if (known->is_candidate) ++known->graph->reads[known->candidate];
}

void CudnnPlanning::plan_finalized(cudnnBackendDescriptor_t plan) {
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const found = descriptors_.find(plan);
  if (found == descriptors_.end() || found->second.graph == nullptr) return;
  found->second.plan_rank = found->second.graph->plans_made++;
}

std::optional<cudnnBackendDescriptorType_t> CudnnPlanning::type_of(cudnnBackendDescriptor_t descriptor) const {
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const* const known = find(descriptor);
  return known == nullptr ? std::nullopt : std::make_optional(known->type);
}

bool CudnnPlanning::plans_a_convolution(cudnnBackendDescriptor_t heuristics) const {
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const* const known = find(heuristics);
  return known != nullptr && known->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && known->graph != nullptr;
}

/// Note [What the notes that are read tell]
/// Whether TF32 is allowed is LibTorch's secret. But its filter reads one note after the other, and the engine anew for each,
/// until one sorts a configuration out: NONDETERMINISTIC if determinism is asked for, DOWN_CONVERT_INPUTS always, TENSOR_CORE if
/// TF32 is not allowed. So the number of reads tells; where it fits both, determinism is the rarer wish.
std::optional<bool> CudnnPlanning::allows_tf32(Graph const& graph) {
  auto const fits = [&](bool deterministic, bool tf32) {
    auto read = false;
    for (std::size_t i = 0; i < graph.candidates.size(); ++i) {
      if (graph.reads[i] <= 0) continue;  // the second heuristics may not have been needed
      read = true;
      auto const& notes = graph.candidates[i];
      auto expected = deterministic ? 1 : 0;
      if (!deterministic || !notes.nondeterministic) expected += notes.down_converts_inputs || tf32 ? 1 : 2;
      if (graph.reads[i] != expected) return false;
    }
    return read;
  };
  for (auto const deterministic : {false, true}) {
    auto const with = fits(deterministic, true);
    auto const without = fits(deterministic, false);
    if (with != without) return with;
    if (with) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<CudnnPlanning::PlannedConvolution> CudnnPlanning::convolution_of(cudnnBackendDescriptor_t plan) const {
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const* const known = find(plan);
  if (known == nullptr || known->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || known->graph == nullptr) {
    return std::nullopt;
  }
  auto const& graph = *known->graph;
  std::vector<std::string> maths;
  if (graph.question.type != "float") {
    maths = {"any"};
  } else if (known->is_candidate && graph.candidates[known->candidate].tensor_core) {
    maths = {"tf32"};
  } else if (auto const tf32 = allows_tf32(graph)) {
    maths = {*tf32 ? "tf32" : "fp32"};
  } else {
    // Where an engine that only TF32 allows was passed over for the one in use, it is not allowed.
    bool passed_over = false;
    for (std::size_t i = 0; known->is_candidate && i < known->candidate; ++i) {
      passed_over = passed_over || (graph.candidates[i].tensor_core && !graph.candidates[i].down_converts_inputs);
    }
    maths = passed_over ? std::vector<std::string>{"fp32"} : std::vector<std::string>{"fp32", "tf32"};
  }
  PlannedConvolution planned;
  planned.rank = known->plan_rank;
  for (auto const& math : maths) {
    auto question = graph.question;
    question.math = math;
    planned.questions.push_back(question.text());
  }
  return planned;
}

}  // namespace maxbatch::dry
