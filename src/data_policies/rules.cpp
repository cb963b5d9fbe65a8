#include "rules.hpp"

#include "words.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace maxbatch::dry {
namespace {

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

/// Whether `pattern` is `text` or the end of it behind a `separator`.
bool fits_end(std::string_view pattern, std::string_view text, std::string_view separator) {
  if (fits_pattern(pattern, text)) { return true; }
  for (auto at = text.find(separator); at != std::string_view::npos; at = text.find(separator, at + 1)) {
    if (fits_pattern(pattern, text.substr(at + separator.size()))) { return true; }
  }
  return false;
}

bool fits_function(std::string_view pattern, std::string_view function) {
  return fits_end(pattern, function, ".") || fits_end(pattern, function, "::");
}

bool fits_shape(std::vector<std::optional<std::int64_t>> const& pattern, std::vector<std::int64_t> const& shape) {
  return std::equal(pattern.begin(), pattern.end(), shape.begin(), shape.end(),
                    [](auto const& wanted, std::int64_t size) { return !wanted || *wanted == size; });
}

/// Reads one line.
class RuleReader {
 public:
  explicit RuleReader(std::string_view text) : rest_(text) {}

  Rule read() {
    // The sign is looked for from behind: a C++ function may be called operator==.
    auto const equals = rest_.rfind('=');
    if (equals == std::string_view::npos) { throw std::invalid_argument("there is no '= ANSWER'"); }
    Rule rule;
    rule.answer = read_answer(rest_.substr(equals + 1));
    rest_ = rest_.substr(0, equals);
    rule.operation = next_word("an operation");
    check_operation(rule.operation);
    while (!(rest_ = trimmed(rest_)).empty()) { read_condition(rule); }
    return rule;
  }

 private:
  std::string next_word(char const* wanted) {
    rest_ = trimmed(rest_);
    if (rest_.empty()) { throw std::invalid_argument(std::string(wanted) + " is missing"); }
    auto const end = rest_.front() == '[' ? rest_.find(']') : rest_.find_first_of(" \t");
    auto const size = end == std::string_view::npos ? rest_.size() : rest_.front() == '[' ? end + 1 : end;
    auto const word = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return std::string(word);
  }
  static std::int64_t read_number(std::string_view text, std::int64_t least) {
    std::int64_t number = 0;
    auto const* const end = text.data() + text.size();
    auto const [stopped, error] = std::from_chars(text.data(), end, number);
    if (text.empty() || error != std::errc() || stopped != end || number < least) {
      throw std::invalid_argument(quoted(text) + " is no number from " + std::to_string(least));
    }
    return number;
  }
  static void check_operation(std::string const& operation) {
    auto const& names = operation_names();
    auto const known =
        std::any_of(names.begin(), names.end(), [&](std::string_view name) { return fits_pattern(operation, name); });
    if (known) { return; }
    std::string all;
    for (auto const name : names) { all += (all.empty() ? "" : ", ") + std::string(name); }
    throw std::invalid_argument(quoted(operation) + " is no operation; there are: " + all);
  }
  static std::vector<std::optional<std::int64_t>> read_shape(std::string const& text) {
    if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
      throw std::invalid_argument(quoted(text) + " is no shape such as [*, 4]");
    }
    std::vector<std::optional<std::int64_t>> shape;
    auto rest = trimmed(std::string_view(text).substr(1, text.size() - 2));
    for (auto more = !rest.empty(); more;) {
      auto const comma = rest.find(',');
      auto const size = trimmed(rest.substr(0, comma));
      shape.push_back(size == "*" ? std::nullopt : std::optional<std::int64_t>(read_number(size, 0)));
      more = comma != std::string_view::npos;
      if (more) { rest.remove_prefix(comma + 1); }
    }
    return shape;
  }
  void read_condition(Rule& rule) {
    auto const kind = next_word("a condition");
    if (kind == "at") {
      auto const place = next_word("FILE[:LINE] behind 'at'");
      auto const colon = place.rfind(':');
      rule.file = place.substr(0, colon);
      if (colon != std::string::npos) { rule.line = read_number(std::string_view(place).substr(colon + 1), 1); }
      if (rule.file.empty()) { throw std::invalid_argument(quoted(place) + " names no file"); }
    } else if (kind == "in") {
      rule.function = next_word("a function behind 'in'");
    } else if (kind == "within") {
      rule.within = next_word("an operator behind 'within'");
    } else if (kind == "of") {
      rule.shape = read_shape(next_word("a shape behind 'of'"));
    } else if (kind == "call") {
      auto const calls = next_word("a number behind 'call'");
      auto const dash = calls.find('-');
      auto const first = std::string_view(calls).substr(0, dash);
      rule.first_call = read_number(first, 1) - 1;
      rule.last_call = rule.first_call;
      if (dash != std::string::npos) {
        auto const last = std::string_view(calls).substr(dash + 1);
        rule.last_call = last.empty() ? std::numeric_limits<std::int64_t>::max() : read_number(last, 1) - 1;
      }
      if (rule.last_call < rule.first_call) { throw std::invalid_argument(quoted(calls) + " ends before it begins"); }
    } else {
      throw std::invalid_argument(quoted(kind) +
                                  " is no condition; there are: at FILE[:LINE], in FUNCTION, within "
                                  "OPERATOR, of SHAPE, call N[-M]");
    }
  }

  std::string_view rest_;
};

}  // namespace

bool fits(Rule const& rule, Question const& question) {
  if (!fits_pattern(rule.operation, question.operation)) { return false; }
  if (question.call < rule.first_call || question.call > rule.last_call) { return false; }
  if (rule.shape && !fits_shape(*rule.shape, question.shape)) { return false; }
  if (!rule.file.empty()) {
    if (question.place.empty()) { return false; }
    auto const& frame = question.place.front();
    if (rule.line != 0 && rule.line != frame.line) { return false; }
    if (!fits_end(rule.file, frame.file, "/")) { return false; }
  }
  if (!rule.function.empty() && std::none_of(question.place.begin(), question.place.end(), [&](CallFrame const& frame) {
        return fits_function(rule.function, frame.function);
      })) {
    return false;
  }
  return rule.within.empty() ||
         std::any_of(question.within.begin(), question.within.end(),
                     [&](std::string_view around) { return fits_end(rule.within, around, "::"); });
}

std::vector<Rule> read_rules(std::string_view text, std::string const& called) {
  std::vector<Rule> rules;
  for (int number = 1; !text.empty(); ++number) {
    auto const end = text.find('\n');
    auto const whole = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    auto const line = trimmed(whole.substr(0, whole.find('#')));
    if (line.empty()) { continue; }
    try {
      rules.push_back(RuleReader(line).read());
    } catch (std::invalid_argument const& error) {
      throw std::invalid_argument(called + ", line " + std::to_string(number) + ": " + error.what());
    }
    rules.back().number = number;
  }
  return rules;
}

std::vector<Rule> read_rules_file(std::string const& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) { throw std::invalid_argument("the rules " + path + " cannot be read"); }
  return read_rules(text.str(), path);
}

std::vector<std::string_view> const& operation_names() {
  static std::vector<std::string_view> const names = {"nonzero",           "unique",      "nms",      "item",    "copy",
                                                      "repeat_interleave", "multinomial", "bincount", "coalesce"};
  return names;
}

Rule const* find_rule(std::vector<Rule> const& rules, Question const& question) {
  auto const found = std::find_if(rules.begin(), rules.end(), [&](Rule const& rule) { return fits(rule, question); });
  return found == rules.end() ? nullptr : &*found;
}

}  // namespace maxbatch::dry
