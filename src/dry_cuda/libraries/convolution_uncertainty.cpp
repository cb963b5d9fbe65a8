#include "dry_cuda/libraries/convolution_uncertainty.hpp"

#include "dry_cuda/libraries/convolution_question.hpp"

#include <algorithm>
#include <cmath>

namespace maxbatch::dry {
namespace {

// Note [How far a planned workspace may be off]
// 4,800 of the H200 table's 6,674 questions (the first 3,950 of its lines, then every third forward and every fifth other one)
// were asked of cuDNN 9.19 without a driver, for a card with the H200's properties and another name. A difference is the card's
// workspace less the planned one, in units of the bytes of the convolution's three tensors: nearly all large workspaces are
// copies of those in another layout, or tiles of them. Below: the 2.5th and 97.5th percentile of each group. With bounds from
// one half of a group, 94.8 % of the other halves' 2,402 questions lie within. Without TF32 in float the card's workspace was
// never the smaller one, since cuDNN withholds engines and adds none. Other cards were not asked.
struct Bounds {
  double low;
  double high;
};

Bounds of_direction(ConvolutionQuestion const& question, Bounds forward, Bounds data, Bounds filter) {
  using Direction = ConvolutionQuestion::Direction;
  return question.direction == Direction::forward         ? forward
         : question.direction == Direction::backward_data ? data
                                                          : filter;
}

Bounds bounds_of_plan(ConvolutionQuestion const& question) {
  if (question.math == "fp32") return of_direction(question, {0.0, 6.81}, {0.0, 2.74}, {0.0, 2.82});
  if (question.math == "tf32") return of_direction(question, {-1.0, 0.61}, {-1.0, 0.30}, {-1.06, 2.35});
  return of_direction(question, {-1.0, 0.0}, {-1.02, 0.16}, {-1.06, 0.33});
}

/// The same percentiles of the table's questions, each left out in turn: Note [Batch sizes that nobody asked about].
Bounds bounds_of_neighbours(ConvolutionQuestion const& question) {
  if (question.math == "fp32") return of_direction(question, {0.0, 0.0}, {0.0, 0.0}, {0.0, 0.0});
  if (question.math == "tf32") return of_direction(question, {-0.21, 0.34}, {-0.18, 0.27}, {-1.21, 0.34});
  return of_direction(question, {-0.01, 0.01}, {-0.01, 0.01}, {-0.14, 0.26});
}

std::int64_t product(std::vector<std::int64_t> const& sizes) {
  std::int64_t count = 1;
  for (auto const size : sizes) count *= size;
  return count;
}

double tensor_bytes(ConvolutionQuestion const& question) {
  auto output = question.input;
  output[1] = question.filter[0];
  for (std::size_t i = 0; i + 2 < output.size(); ++i) {
    auto const covered = question.dilation[i] * (question.filter[i + 2] - 1) + 1;
    output[i + 2] = (question.input[i + 2] + 2 * question.padding[i] - covered) / question.stride[i] + 1;
  }
  auto const element = question.type == "double" ? 8.0 : question.type == "float" ? 4.0 : 2.0;
  return element * static_cast<double>(product(question.input) + product(question.filter) + product(output));
}

ScratchAnswer uncertain(MemorySource source, Bounds (*bounds_of)(ConvolutionQuestion const&),
                        std::vector<std::string> const& questions, std::int64_t bytes) {
  auto answer = certain(source, bytes);
  for (auto const& text : questions) {
    auto const question = ConvolutionQuestion::parse(text);
    auto const bounds = bounds_of(question);
    auto const unit = tensor_bytes(question);
    auto const low = bytes + static_cast<std::int64_t>(std::floor(bounds.low * unit));
    auto const high = bytes + static_cast<std::int64_t>(std::ceil(bounds.high * unit));
    answer.low_bytes = std::min(answer.low_bytes, std::max<std::int64_t>(0, low));
    answer.high_bytes = std::max(answer.high_bytes, high);
  }
  return answer;
}

}  // namespace

ScratchAnswer planned_workspace(std::vector<std::string> const& questions, std::int64_t planned_bytes) {
  return uncertain(MemorySource::planned, bounds_of_plan, questions, planned_bytes);
}

ScratchAnswer near_workspace(std::vector<std::string> const& questions, std::int64_t near_bytes) {
  return uncertain(MemorySource::neighbours, bounds_of_neighbours, questions, near_bytes);
}

}  // namespace maxbatch::dry
