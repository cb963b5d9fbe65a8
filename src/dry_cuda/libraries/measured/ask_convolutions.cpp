// Answers convolution questions on a real card: reads lines as ConvolutionQuestion::text() writes them from standard input, and
// writes a convolution table to standard output. Asks cuDNN as LibTorch does: its heuristics, then its fallback, without the
// engines that LibTorch passes over, and takes the workspaces of the first plans that can be made.
//
//   g++ -std=c++17 ask_convolutions.cpp -I<cuda>/include -I<cudnn>/include -L<cudnn>/lib -l:libcudnn.so.9 -L<cuda> -lcudart
#include <cuda_runtime_api.h>
#include <cudnn_backend.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kMostPlans = 3;

void check(cudnnStatus_t status, char const* what) {
  if (status != CUDNN_STATUS_SUCCESS) throw std::runtime_error(std::string(what) + ": " + cudnnGetErrorString(status));
}

/// One descriptor of cuDNN's, destroyed with it.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check(cudnnBackendCreateDescriptor(type, &descriptor_), "descriptor");
  }
  ~Descriptor() { cudnnBackendDestroyDescriptor(descriptor_); }
  Descriptor(Descriptor const&) = delete;
  Descriptor& operator=(Descriptor const&) = delete;

  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                  void const* value) {
    check(cudnnBackendSetAttribute(descriptor_, name, type, count, value), "attribute");
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, std::vector<std::int64_t> const& numbers) {
    return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(numbers.size()), numbers.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, Descriptor const& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.descriptor_);
  }
  Descriptor& finalize() {
    check(cudnnBackendFinalize(descriptor_), "finalize");
    return *this;
  }
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

struct Question {
  std::string direction, layout, type, math;
  std::vector<std::int64_t> input, filter, stride, padding, dilation;
};

std::vector<std::int64_t> numbers(std::string const& text) {
  std::vector<std::int64_t> found;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) found.push_back(std::stoll(word));
  return found;
}

Question parse(std::string const& line) {
  std::istringstream words(line);
  std::string input, filter, stride, padding, dilation;
  Question question;
  words >> question.direction >> input >> filter >> stride >> padding >> dilation >> question.layout >> question.type >>
      question.math;
  question.input = numbers(input);
  question.filter = numbers(filter);
  question.stride = numbers(stride);
  question.padding = numbers(padding);
  question.dilation = numbers(dilation);
  if (question.math.empty() || question.input.size() < 3) throw std::runtime_error("no question: " + line);
  return question;
}

std::vector<std::int64_t> strides_of(std::vector<std::int64_t> const& sizes, bool channels_last) {
  std::vector<std::int64_t> strides(sizes.size());
  std::vector<std::size_t> order;  // from the innermost dimension out
  if (channels_last) order.push_back(1);
  for (std::size_t i = sizes.size() - 1; i > 1; --i) order.push_back(i);
  if (!channels_last) order.push_back(1);
  order.push_back(0);
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

struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
};

OperationNames names_of(std::string const& direction) {
  if (direction == "forward") {
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  }
  if (direction == "backward_data") {
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

/// Whether LibTorch passes over an engine (ATen/native/cudnn/Conv_v8.cpp, without the deterministic flag).
bool is_passed_over(cudnnBackendDescriptor_t configuration, Question const& question) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  auto raw = engine.get();
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                 &raw),
        "engine");
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  check(cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes),
        "notes");
  auto const has = [&](cudnnBackendNumericalNote_t note) {
    return std::find(notes, notes + count, note) != notes + count;
  };
  return has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ||
         (question.math == "fp32" && has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
}

std::vector<std::int64_t> answer(Question const& question, cudnnHandle_t handle) {
  std::size_t const spatial = question.input.size() - 2;
  auto output = question.input;
  output[1] = question.filter[0];
  for (std::size_t i = 0; i < spatial; ++i) {
    output[i + 2] =
        (question.input[i + 2] + 2 * question.padding[i] - question.dilation[i] * (question.filter[i + 2] - 1) - 1) /
            question.stride[i] +
        1;
  }
  auto const type = question.type == "half"       ? CUDNN_DATA_HALF
                    : question.type == "bfloat16" ? CUDNN_DATA_BFLOAT16
                    : question.type == "double"   ? CUDNN_DATA_DOUBLE
                                                  : CUDNN_DATA_FLOAT;
  bool const channels_last = question.layout == "channels_last";
  Descriptor x(CUDNN_BACKEND_TENSOR_DESCRIPTOR), w(CUDNN_BACKEND_TENSOR_DESCRIPTOR), y(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  describe(x, 'x', question.input, channels_last, type);
  describe(w, 'w', question.filter, channels_last, type);
  describe(y, 'y', output, channels_last, type);
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  auto const precision = type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  auto const mode = CUDNN_CROSS_CORRELATION;
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {static_cast<std::int64_t>(spatial)})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, question.dilation)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, question.stride)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, question.padding)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, question.padding)
      .finalize();
  auto const names = names_of(question.direction);
  float const one = 1, zero = 0;
  Descriptor operation(names.type);
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one)
      .set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero)
      .set(names.convolution, convolution)
      .set(names.x, x)
      .set(names.w, w)
      .set(names.y, y)
      .finalize();
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation)
      .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle)
      .finalize();
  std::vector<std::int64_t> workspaces;
  for (auto const heuristics_mode : {CUDNN_HEUR_MODE_INSTANT, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &heuristics_mode)
        .finalize();
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                   &count, nullptr),
          "heuristics");
    std::vector<cudnnBackendDescriptor_t> configurations(static_cast<std::size_t>(count));
    for (auto& one_of : configurations) cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &one_of);
    check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   count, &count, configurations.data()),
          "heuristics");
    for (std::int64_t i = 0; i < count && workspaces.size() < kMostPlans; ++i) {
      auto const configuration = configurations[static_cast<std::size_t>(i)];
      if (is_passed_over(configuration, question)) continue;
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle)
          .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration);
      if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) continue;
      std::int64_t bytes = 0, got = 0;
      check(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &got,
                                     &bytes),
            "workspace");
      workspaces.push_back(bytes);
    }
    for (auto const one_of : configurations) cudnnBackendDestroyDescriptor(one_of);
  }
  return workspaces;
}

}  // namespace

int main() {
  cudaDeviceProp card{};
  cudnnHandle_t handle = nullptr;
  if (cudaGetDeviceProperties(&card, 0) != cudaSuccess || cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) {
    std::cerr << "ask_convolutions: there is no card here, or no cuDNN that knows it\n";
    return 1;
  }
  std::cout << "# card: " << card.name << "\n# cudnn: " << cudnnGetVersion() << '\n';
  int failed = 0;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty() || line[0] == '#') continue;
    try {
      auto const workspaces = answer(parse(line), handle);
      if (workspaces.empty()) throw std::runtime_error("no plan");
      std::cout << line;
      for (auto const bytes : workspaces) std::cout << ' ' << bytes;
      std::cout << '\n';
    } catch (std::exception const& error) {
      ++failed;
      std::cerr << line << ": " << error.what() << '\n';
    }
  }
  cudnnDestroy(handle);
  std::cerr << failed << " questions without an answer\n";
  return 0;
}
