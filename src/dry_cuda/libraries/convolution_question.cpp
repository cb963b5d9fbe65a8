#include "dry_cuda/libraries/convolution_question.hpp"

#include <cstddef>

namespace maxbatch::dry {
namespace {

std::string joined(std::vector<std::int64_t> const& numbers) {
  std::string text;
  for (auto const number : numbers) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

char const* name_of(ConvolutionQuestion::Direction direction) {
  switch (direction) {
    case ConvolutionQuestion::Direction::forward: return "forward";
    case ConvolutionQuestion::Direction::backward_data: return "backward_data";
    case ConvolutionQuestion::Direction::backward_filter: return "backward_filter";
  }
  return "";
}

}  // namespace

std::string ConvolutionQuestion::text() const {
  std::string line = name_of(direction);
  for (auto const* numbers : {&input, &filter, &stride, &padding, &dilation}) line += ' ' + joined(*numbers);
  line += channels_last ? " channels_last " : " contiguous ";
  return line + type + ' ' + math;
}

bool ConvolutionQuestion::is_complete() const {
  std::size_t const dimensions = input.size();
  if (dimensions < 3 || filter.size() != dimensions || filter[1] <= 0 || type.empty()) return false;
  for (auto const* numbers : {&stride, &padding, &dilation}) {
    if (numbers->size() + 2 != dimensions) return false;
  }
  return true;
}

}  // namespace maxbatch::dry
