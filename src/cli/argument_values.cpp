#include "argument_values.hpp"

#include "usage_error.hpp"
#include <maxbatch/impl/nearest_name.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

namespace maxbatch::cli {
namespace {

std::string quoted(std::string const& option, std::string const& text) { return option + " '" + text + "'"; }

bool read_whole_number(std::string_view text, std::int64_t& value) {
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

std::int64_t read_count(std::string const& option, std::string const& text, std::int64_t at_least) {
  std::int64_t value = 0;
  if (!read_whole_number(text, value) || value < at_least) {
    throw UsageError(quoted(option, text) + " is not a whole number of at least " + std::to_string(at_least));
  }
  return value;
}

double read_seconds(std::string const& option, std::string const& text) {
  char* end = nullptr;
  auto const value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value) || value <= 0) {
    throw UsageError(quoted(option, text) + " is not a number of seconds above 0, such as 30 or 2.5");
  }
  return value;
}

Bytes read_bytes(std::string const& option, std::string const& text, Bytes at_least) {
  auto const amount = parse_bytes(text);
  if (!amount) {
    throw UsageError(quoted(option, text) +
                     " is not an amount of memory; write a number with a unit, such as 10700MiB, 1.5GiB or 12GB");
  }
  if (*amount < at_least) {
    throw UsageError(quoted(option, text) + " is too little; give at least " + to_string(at_least));
  }
  return *amount;
}

ImageSize read_image_size(std::string const& option, std::string const& text) {
  auto const cross = text.find('x');
  ImageSize size;
  if (cross == std::string::npos || !read_whole_number(std::string_view(text).substr(0, cross), size.height) ||
      !read_whole_number(std::string_view(text).substr(cross + 1), size.width) || size.height < 1 || size.width < 1) {
    throw UsageError(quoted(option, text) + " is not height x width in pixels, such as 64x64");
  }
  return size;
}

std::string read_name(std::string const& option, std::string const& text, std::vector<std::string> const& known) {
  if (std::find(known.begin(), known.end(), text) != known.end()) { return text; }
  auto message = quoted(option, text) + " is not known";
  if (auto const nearest = detail::nearest_name(text, known)) { message += "; did you mean '" + *nearest + "'?"; }
  message += message.back() == '?' ? " Choose one of " : "; choose one of ";
  for (std::size_t i = 0; i < known.size(); ++i) { message += (i == 0 ? "" : ", ") + known[i]; }
  throw UsageError(message);
}

OptimizerKind read_optimizer(std::string const& option, std::string const& text) {
  return *parse_optimizer(read_name(option, text, optimizer_names()));
}

Precision read_precision(std::string const& option, std::string const& text) {
  return *parse_precision(read_name(option, text, {"fp32", "tf32", "bf16", "fp16"}));
}

std::vector<std::string> split_at_commas(std::string const& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (auto comma = text.find(','); comma != std::string::npos; comma = text.find(',', begin)) {
    parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<StepMode> read_order(std::string const& option, std::string const& text) {
  std::vector<StepMode> order;
  for (auto const& part : split_at_commas(text)) {
    order.push_back(read_name(option, part, {"train", "evaluate"}) == "train" ? StepMode::train : StepMode::evaluate);
  }
  return order;
}

Card const& read_card(std::string const& option, std::string const& text) {
  try {
    return CardCatalogue::built_in().find(text);
  } catch (UnknownCard const& error) { throw UsageError(option + ": " + error.what()); }
}

}  // namespace maxbatch::cli
