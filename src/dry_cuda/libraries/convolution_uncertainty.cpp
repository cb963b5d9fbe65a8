#include "dry_cuda/libraries/convolution_uncertainty.hpp"

#include "dry_cuda/libraries/convolution_question.hpp"

#include <algorithm>
#include <cmath>

namespace maxbatch::dry {
namespace {

// Note [How far a workspace may be off]
// measured/uncertainty.py drew 10,207 questions of the H200's table of 2026-12-02 (309,389 answers): 600 convolutions of each group at
// any batch size, and 600 at one between powers of two; and cuDNN 9.19 planned them without a driver, for a card with the H200's properties
// and another name. A difference is the card's workspace less the answer, in units of the bytes of the convolution's three tensors:
// nearly all large workspaces are copies of those in another layout, or tiles of them. Below: the 2.5th and 97.5th percentile of each
// group, a convolution counting once. With bounds from one half of a group's convolutions, 94.1 % of the other half or more lie within, in
// every group. Without TF32 in float the card's workspace was never smaller than the planned one, since cuDNN withholds engines and adds
// none; one forward convolution in 55 wants more than the bounds say, some a multiple of its tensors. Other cards were not asked.
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
  if (question.math == "fp32") return of_direction(question, {0.0, 0.0}, {0.0, 2.73}, {0.0, 2.51});
  if (question.math == "tf32") return of_direction(question, {-1.01, 0.29}, {-1.01, 0.49}, {-1.08, 2.04});
  return of_direction(question, {-1.0, 0.01}, {-1.0, 0.03}, {-1.08, 3.50});
}

/// Of what the table says at the batch sizes next to it, where cuDNN plans otherwise: Note [Batch sizes that nobody asked about].
Bounds bounds_of_neighbours(ConvolutionQuestion const& question) {
  if (question.math == "fp32") return of_direction(question, {0.0, 0.0}, {-3.15, 0.0}, {-0.88, 0.0});
  if (question.math == "tf32") return of_direction(question, {-0.01, 0.82}, {-0.01, 0.0}, {-0.04, 0.01});
  return of_direction(question, {0.0, 0.99}, {-0.01, 0.01}, {-0.01, 0.01});
}

/// The same, where it plans so, too: of 100 such answers at least 96 were right.
Bounds bounds_of_agreement(ConvolutionQuestion const& question) {
  return question.math == "fp32" ? Bounds{0.0, 0.0} : Bounds{-0.01, 0.01};
}

/// Which of two answers LibTorch's allocator can tell apart.
std::int64_t blocks(std::int64_t bytes) {
  constexpr std::int64_t kBlock = 512;
  return (bytes + kBlock - 1) / kBlock;
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

ScratchAnswer near_workspace(std::vector<std::string> const& questions, std::int64_t near_bytes,
                             std::int64_t planned_bytes) {
  auto const bounds = blocks(near_bytes) == blocks(planned_bytes) ? bounds_of_agreement : bounds_of_neighbours;
  return uncertain(MemorySource::neighbours, bounds, questions, near_bytes);
}

}  // namespace maxbatch::dry
