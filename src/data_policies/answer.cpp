#include "answer.hpp"

#include "words.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

namespace maxbatch::dry {
namespace {

constexpr char const* kWhatThereIs =
    " is no answer; there are: worst, none, 25%, 512, at most 512, true, false, and 'A, B in turn'";

[[noreturn]] void refuse(std::string_view text) {
  throw std::invalid_argument("'" + std::string(text) + "'" + kWhatThereIs);
}

double read_amount(std::string_view digits, std::string_view text) {
  double amount = 0;
  auto const* const end = digits.data() + digits.size();
  auto const [stopped, error] = std::from_chars(digits.data(), end, amount);
  if (digits.empty() || error != std::errc() || stopped != end || !std::isfinite(amount)) { refuse(text); }
  return amount;
}

Answer read_one(std::string_view text) {
  if (text == "worst") { return {}; }
  if (text == "none") { return {Answer::Kind::none, 0, {}}; }
  if (text == "true") { return {Answer::Kind::truth, 1, {}}; }
  if (text == "false") { return {Answer::Kind::truth, 0, {}}; }
  if (!text.empty() && text.back() == '%') {
    auto const percent = read_amount(trimmed(text.substr(0, text.size() - 1)), text);
    if (percent < 0 || percent > 100) {
      throw std::invalid_argument("'" + std::string(text) + "' is not in 0% to 100%");
    }
    return {Answer::Kind::share, percent, {}};
  }
  constexpr std::string_view kAtMost = "at most ";
  if (text.substr(0, kAtMost.size()) == kAtMost) {
    auto const number = read_amount(trimmed(text.substr(kAtMost.size())), text);
    if (number < 0) { throw std::invalid_argument("'" + std::string(text) + "' is less than nothing"); }
    return {Answer::Kind::number, number, {}};
  }
  return {Answer::Kind::number, read_amount(text, text), {}};
}

std::string number_text(double number) {
  std::array<char, 64> text{};
  auto const result = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), result.ptr};
}

}  // namespace

Answer read_answer(std::string_view text) {
  text = trimmed(text);
  constexpr std::string_view kInTurn = " in turn";
  auto const ends = text.size() > kInTurn.size() && text.substr(text.size() - kInTurn.size()) == kInTurn;
  if (!ends) { return read_one(text); }
  Answer all;
  auto rest = text.substr(0, text.size() - kInTurn.size());
  for (auto more = true; more;) {
    auto const comma = rest.find(',');
    all.in_turn.push_back(read_one(trimmed(rest.substr(0, comma))));
    more = comma != std::string_view::npos;
    if (more) { rest.remove_prefix(comma + 1); }
  }
  return all;
}

std::string answer_text(Answer const& answer) {
  if (!answer.in_turn.empty()) {
    std::string text;
    for (auto const& one : answer.in_turn) { text += (text.empty() ? "" : ", ") + answer_text(one); }
    return text + " in turn";
  }
  switch (answer.kind) {
    case Answer::Kind::worst: return "worst";
    case Answer::Kind::none: return "none";
    case Answer::Kind::share: return number_text(answer.amount) + "%";
    case Answer::Kind::number: return number_text(answer.amount);
    case Answer::Kind::truth: return answer.amount != 0 ? "true" : "false";
  }
  return {};
}

Answer const& answer_at(Answer const& answer, std::int64_t call) {
  if (answer.in_turn.empty()) { return answer; }
  return answer.in_turn[static_cast<std::size_t>(call) % answer.in_turn.size()];
}

std::int64_t count_of(Answer const& answer, std::int64_t all, std::int64_t most) {
  auto const clamped = [most](double count) {
    // Compared first: a double that int64_t cannot hold must not be converted.
    if (!(count > 0)) { return std::int64_t{0}; }
    return count < static_cast<double>(most) ? static_cast<std::int64_t>(count) : most;
  };
  switch (answer.kind) {
    case Answer::Kind::worst: return std::clamp<std::int64_t>(all, 0, most);
    case Answer::Kind::none: return 0;
    case Answer::Kind::share: return clamped(std::floor(static_cast<double>(all) * answer.amount / 100 + 0.5));
    case Answer::Kind::number:
    case Answer::Kind::truth: return clamped(std::floor(answer.amount));
  }
  return 0;
}

bool has_value(Answer const& answer) {
  return answer.kind == Answer::Kind::number || answer.kind == Answer::Kind::truth;
}

}  // namespace maxbatch::dry
