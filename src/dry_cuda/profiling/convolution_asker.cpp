#include "dry_cuda/profiling/convolution_asker.hpp"

#include "dry_cuda/profiling/loaded_cuda.hpp"

#include <cudnn_backend.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace maxbatch::dry {
namespace {

void check(cudnnStatus_t status, char const* what) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(what) + ": " + MAXBATCH_LOADED(cudnnGetErrorString)(status));
  }
}

/// One descriptor of cuDNN's, destroyed with it.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check(MAXBATCH_LOADED(cudnnBackendCreateDescriptor)(type, &descriptor_), "a descriptor");
  }
  ~Descriptor() { MAXBATCH_LOADED(cudnnBackendDestroyDescriptor)(descriptor_); }
  Descriptor(Descriptor const&) = delete;
  Descriptor& operator=(Descriptor const&) = delete;

  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                  void const* value) {
    check(MAXBATCH_LOADED(cudnnBackendSetAttribute)(descriptor_, name, type, count, value), "an attribute");
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, std::vector<std::int64_t> const& numbers) {
    return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(numbers.size()), numbers.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, Descriptor const& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.descriptor_);
  }
  Descriptor& finalize() {
    check(MAXBATCH_LOADED(cudnnBackendFinalize)(descriptor_), "a description");
    return *this;
  }
  [[nodiscard]] cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

std::int64_t get(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                 cudnnBackendAttributeType_t type, std::int64_t most, void* elements) {
  std::int64_t count = 0;
  check(MAXBATCH_LOADED(cudnnBackendGetAttribute)(descriptor, name, type, most, &count, elements), "a question");
  return count;
}

std::vector<std::int64_t> strides_of(std::vector<std::int64_t> const& sizes, bool channels_last) {
  std::vector<std::size_t> order;  // from the innermost dimension out
  if (channels_last) { order.push_back(1); }
  for (std::size_t i = sizes.size() - 1; i > 1; --i) { order.push_back(i); }
  if (!channels_last) { order.push_back(1); }
  order.push_back(0);
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (auto const dimension : order) {
    strides[dimension] = stride;
    stride *= sizes[dimension];
  }
  return strides;
}

void describe(Descriptor& tensor, std::int64_t id, std::vector<std::int64_t> const& sizes, bool channels_last,
              cudnnDataType_t type) {
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides_of(sizes, channels_last))
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {id})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {16})
      .finalize();
}

cudnnDataType_t type_of(std::string const& name) {
  if (name == "half") { return CUDNN_DATA_HALF; }
  if (name == "bfloat16") { return CUDNN_DATA_BFLOAT16; }
  if (name == "double") { return CUDNN_DATA_DOUBLE; }
  return CUDNN_DATA_FLOAT;
}

struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
};

OperationNames names_of(ConvolutionQuestion::Direction direction) {
  switch (direction) {
    case ConvolutionQuestion::Direction::forward: break;
    case ConvolutionQuestion::Direction::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case ConvolutionQuestion::Direction::backward_filter:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
}

std::vector<std::int64_t> output_of(ConvolutionQuestion const& question) {
  auto output = question.input;
  output[1] = question.filter[0];
  for (std::size_t i = 0; i + 2 < output.size(); ++i) {
    output[i + 2] =
        (question.input[i + 2] + 2 * question.padding[i] - question.dilation[i] * (question.filter[i + 2] - 1) - 1) /
            question.stride[i] +
        1;
  }
  return output;
}

bool has_note(cudnnBackendDescriptor_t configuration, cudnnBackendNumericalNote_t note) {
  Descriptor const engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  auto raw = engine.get();
  get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  auto const count = get(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                         static_cast<std::int64_t>(notes.size()), notes.data());
  return std::find(notes.begin(), notes.begin() + count, note) != notes.begin() + count;
}

/// Whether LibTorch passes over an engine, without its deterministic flag. Reads one note after the other, as LibTorch does:
/// by that a dry card tells which mathematics are allowed (cudnn_planning.cpp).
bool is_passed_over(cudnnBackendDescriptor_t configuration, ConvolutionQuestion const& question) {
  return has_note(configuration, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ||
         (question.math == "fp32" && has_note(configuration, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
}

/// The graph of the question's one operation. Its descriptors need not outlive it.
void describe(Descriptor& graph, ConvolutionQuestion const& question, cudnnHandle_t handle) {
  auto const type = type_of(question.type);
  Descriptor x(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  Descriptor w(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  Descriptor y(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  describe(x, 'x', question.input, question.channels_last, type);
  describe(w, 'w', question.filter, question.channels_last, type);
  describe(y, 'y', output_of(question), question.channels_last, type);
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  auto const precision = type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  auto const mode = CUDNN_CROSS_CORRELATION;
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {static_cast<std::int64_t>(question.input.size()) - 2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, question.dilation)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, question.stride)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, question.padding)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, question.padding)
      .finalize();
  auto const names = names_of(question.direction);
  float const one = 1;
  float const zero = 0;
  Descriptor operation(names.type);
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one)
      .set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero)
      .set(names.convolution, convolution)
      .set(names.x, x)
      .set(names.w, w)
      .set(names.y, y)
      .finalize();
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation)
      .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle)
      .finalize();
}

/// What one kind of heuristics offers, in its order.
std::vector<std::unique_ptr<Descriptor>> configurations_of(Descriptor const& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode)
      .finalize();
  auto const count = get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<std::unique_ptr<Descriptor>> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configurations.push_back(std::make_unique<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(configurations.back()->get());
  }
  auto const got =
      get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raw.data());
  configurations.resize(static_cast<std::size_t>(std::min(got, count)));
  return configurations;
}

}  // namespace

struct ConvolutionAsker::Handle {
  Handle() {
    auto* const create = MAXBATCH_LOADED(cudnnCreate);
    if (create == nullptr) { throw std::runtime_error("cuDNN is not there: LibTorch was built without CUDA"); }
    check(create(&cudnn), "cuDNN does not start");
  }
  ~Handle() { MAXBATCH_LOADED(cudnnDestroy)(cudnn); }
  Handle(Handle const&) = delete;
  Handle& operator=(Handle const&) = delete;

  cudnnHandle_t cudnn = nullptr;
};

ConvolutionAsker::ConvolutionAsker() : handle_(std::make_unique<Handle>()) {}
ConvolutionAsker::~ConvolutionAsker() = default;

std::vector<std::int64_t> ConvolutionAsker::workspaces(ConvolutionQuestion const& question) const {
  auto const handle = handle_->cudnn;
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  describe(graph, question, handle);
  std::vector<std::int64_t> found;
  for (auto const mode : {CUDNN_HEUR_MODE_INSTANT, CUDNN_HEUR_MODE_FALLBACK}) {
    auto configurations = configurations_of(graph, mode);
    // All of them before the first plan is made, which is LibTorch's order, too.
    configurations.erase(std::remove_if(configurations.begin(), configurations.end(),
                                        [&](auto const& one) { return is_passed_over(one->get(), question); }),
                         configurations.end());
    for (auto const& configuration : configurations) {
      if (found.size() == kMostPlans) { return found; }
      // cudnn_frontend, by which LibTorch asks, reads the engine of a plan once more, and a dry card counts on it.
      static_cast<void>(has_note(configuration->get(), CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle)
          .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *configuration);
      if (MAXBATCH_LOADED(cudnnBackendFinalize)(plan.get()) != CUDNN_STATUS_SUCCESS) { continue; }
      std::int64_t bytes = 0;
      get(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
      found.push_back(bytes);
    }
  }
  return found;
}

std::string ConvolutionAsker::cudnn_version() const { return std::to_string(MAXBATCH_LOADED(cudnnGetVersion)()); }

}  // namespace maxbatch::dry
