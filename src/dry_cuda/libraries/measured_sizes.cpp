#include "dry_cuda/libraries/measured_sizes.hpp"

#include <cmath>
#include <iterator>
#include <sstream>

namespace maxbatch::dry {
namespace {

double interpolated(double at, double low, double low_value, double high, double high_value) {
  if (low_value <= 0 || high_value <= 0 || low == high) return low_value;
  double const exponent = std::log(high_value / low_value) / std::log(high / low);
  return low_value * std::pow(at / low, exponent);
}

std::int64_t interpolated(std::int64_t at, std::int64_t low, std::int64_t low_value, std::int64_t high,
                          std::int64_t high_value) {
  return std::llround(interpolated(static_cast<double>(at), static_cast<double>(low), static_cast<double>(low_value),
                                   static_cast<double>(high), static_cast<double>(high_value)));
}

bool ends_with(std::string const& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

MeasuredSizes::MeasuredSizes(std::string_view text) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string function;
    words >> function;
    std::vector<std::int64_t> numbers;
    for (std::int64_t number = 0; words >> number;) numbers.push_back(number);
    bool const has_host = function.find(':') != std::string::npos;
    std::size_t const answers = has_host ? 2 : 1;
    if (function.empty() || function[0] == '#' || numbers.size() < answers + 2) continue;
    Answer answer;
    answer.on_card = numbers[numbers.size() - answers];
    if (has_host) answer.on_host = numbers.back();
    if (answer.on_card < 0) continue;  // refused on the card
    std::int64_t const rows = numbers[0];
    std::int64_t columns = numbers[1];
    std::int64_t batch = numbers.size() > answers + 2 ? numbers[2] : 1;
    auto const name = function.substr(0, function.find(':'));
    if (numbers.size() == answers + 2 && ends_with(name, "Batched")) {
      batch = columns;
      columns = rows;
    }
    auto const shape = rows > columns ? Shape::tall : rows < columns ? Shape::wide : Shape::square;
    functions_[function][{shape, batch}][columns] = answer;
  }
}

MeasuredSizes::Answer MeasuredSizes::on(Curve const& curve, std::int64_t columns) {
  auto high = curve.lower_bound(columns);
  if (high != curve.end() && high->first == columns) return high->second;
  if (high == curve.begin() || curve.size() == 1) return curve.begin()->second;
  if (high == curve.end()) --high;  // beyond the largest: the last two go on
  auto const low = std::prev(high);
  return {interpolated(columns, low->first, low->second.on_card, high->first, high->second.on_card),
          interpolated(columns, low->first, low->second.on_host, high->first, high->second.on_host)};
}

MeasuredSizes::Answer MeasuredSizes::find(std::string const& function, std::int64_t rows, std::int64_t columns,
                                          std::int64_t batch) const {
  auto const found = functions_.find(function);
  if (found == functions_.end() || columns < 1) return {};
  auto const& curves = found->second;
  auto shape = rows > columns ? Shape::tall : rows < columns ? Shape::wide : Shape::square;
  auto const measured = [&](Shape of) {
    std::vector<std::pair<std::int64_t, Curve const*>> batches;
    for (auto const& [key, curve] : curves) {
      if (key.first == of) batches.emplace_back(key.second, &curve);
    }
    return batches;
  };
  auto batches = measured(shape);
  if (batches.empty()) batches = measured(Shape::square);
  if (batches.empty()) return {};
  auto const first = on(*batches.front().second, columns);
  if (batches.size() == 1 || batch == batches.front().first) return first;
  // Between and beyond the batches that were asked about, a straight line.
  auto const last = on(*batches.back().second, columns);
  auto const line = [&](std::int64_t low, std::int64_t high) {
    return low + (high - low) * (batch - batches.front().first) / (batches.back().first - batches.front().first);
  };
  return {line(first.on_card, last.on_card), line(first.on_host, last.on_host)};
}

MeasuredSizes const& solver_sizes() {
  static auto const* const sizes = new MeasuredSizes(measured_solver_sizes());
  return *sizes;
}

std::string solver_key(char const* function, cudaDataType type) {
  char const* const letter = type == CUDA_R_32F ? "S" : type == CUDA_R_64F ? "D" : type == CUDA_C_32F ? "C" : "Z";
  return std::string(function) + ':' + letter;
}

}  // namespace maxbatch::dry
