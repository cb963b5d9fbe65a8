#include "dry_cuda/libraries/convolution_question.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <sstream>
#include <stdexcept>

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

bool read_numbers(std::string const& text, std::vector<std::int64_t>& numbers) {
  auto const* begin = text.data();
  auto const* const end = begin + text.size();
  while (true) {
    std::int64_t value = 0;
    auto const [stopped, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || value < 0) return false;
    numbers.push_back(value);
    if (stopped == end) return true;
    if (*stopped != ',') return false;
    begin = stopped + 1;
  }
}

bool is_one_of(std::string const& word, std::initializer_list<char const*> known) {
  for (auto const* const one : known) {
    if (word == one) return true;
  }
  return false;
}

}  // namespace

ConvolutionQuestion ConvolutionQuestion::parse(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::string direction_word;
  std::array<std::string, 5> numbers;
  std::string layout;
  ConvolutionQuestion question;
  words >> direction_word;
  for (auto& word : numbers) words >> word;
  words >> layout >> question.type >> question.math;
  question.channels_last = layout == "channels_last";
  bool understood = is_one_of(layout, {"channels_last", "contiguous"}) &&
                    is_one_of(question.type, {"float", "half", "bfloat16", "double"}) &&
                    is_one_of(question.math, {"tf32", "fp32", "any"});
  auto const directions = {Direction::forward, Direction::backward_data, Direction::backward_filter};
  bool known_direction = false;
  for (auto const one : directions) {
    if (direction_word != name_of(one)) continue;
    question.direction = one;
    known_direction = true;
  }
  std::size_t i = 0;
  for (auto* const to : {&question.input, &question.filter, &question.stride, &question.padding, &question.dilation}) {
    understood = understood && read_numbers(numbers[i++], *to);
  }
  if (!understood || !known_direction || !question.is_complete()) {
    throw std::invalid_argument("'" + std::string(line) + "' is no question about a convolution");
  }
  question.channels_last = question.channels_last && !question.has_one_pixel();
  return question;
}

std::string ConvolutionQuestion::text() const {
  std::string line = name_of(direction);
  for (auto const* numbers : {&input, &filter, &stride, &padding, &dilation}) line += ' ' + joined(*numbers);
  line += channels_last ? " channels_last " : " contiguous ";
  return line + type + ' ' + math;
}

bool ConvolutionQuestion::has_one_pixel() const {
  auto const is_one = [](std::vector<std::int64_t> const& sizes) {
    return std::all_of(sizes.begin() + 2, sizes.end(), [](auto extent) { return extent == 1; });
  };
  return is_one(input) && is_one(filter);
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
