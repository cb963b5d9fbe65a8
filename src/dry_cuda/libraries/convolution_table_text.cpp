#include "dry_cuda/libraries/convolution_table_text.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace maxbatch::dry {
namespace {

constexpr std::size_t kQuestionWords = 9;

/// Takes what stands before `separator` off `text`, and the separator.
std::string_view take(std::string_view& text, char separator) {
  std::size_t const end = text.find(separator);
  std::string_view const part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    if (auto const word = take(line, ' '); !word.empty()) words.push_back(word);
  }
  return words;
}

std::optional<std::int64_t> number(std::string_view word) {
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value < 0) return std::nullopt;
  return value;
}

std::string joined(std::vector<std::string_view> const& words) {
  std::string text;
  for (std::size_t i = 0; i < kQuestionWords; ++i) {
    if (i > 0) text += ' ';
    text += words[i];
  }
  return text;
}

using Each = std::function<void(ConvolutionAtBatch const&, std::vector<std::int64_t>)>;

/// Words of a line with a batch size in its question.
bool read_question(std::vector<std::string_view> const& words, Each const& each) {
  auto const question = split_batch(joined(words));
  if (!question) return false;
  std::vector<std::int64_t> workspaces;
  for (std::size_t i = kQuestionWords; i < words.size(); ++i) {
    auto const bytes = number(words[i]);
    if (!bytes) return false;
    workspaces.push_back(*bytes);
  }
  each(*question, std::move(workspaces));
  return true;
}

/// Words of a line for all batch sizes of a convolution.
bool read_batches(std::vector<std::string_view> const& words, Each const& each) {
  ConvolutionAtBatch question{0, joined(words)};
  for (std::size_t i = kQuestionWords; i < words.size(); ++i) {
    auto word = words[i];
    auto const batch = number(take(word, ':'));
    std::vector<std::int64_t> workspaces;
    while (batch && !word.empty()) {
      auto const bytes = number(take(word, ','));
      if (!bytes) return false;
      workspaces.push_back(*bytes);
    }
    if (workspaces.empty()) return false;
    question.batch = *batch;
    each(question, std::move(workspaces));
  }
  return true;
}

}  // namespace

std::optional<ConvolutionAtBatch> split_batch(std::string_view question) {
  auto const begin = question.find(' ') + 1;  // 0 where there is no space
  auto const end = question.find(',', begin);
  if (begin == 0 || end == std::string_view::npos) return std::nullopt;
  auto const batch = number(question.substr(begin, end - begin));
  if (!batch) return std::nullopt;
  return ConvolutionAtBatch{*batch, std::string(question.substr(0, begin)) + '*' + std::string(question.substr(end))};
}

std::string question_text(ConvolutionAtBatch const& asked) {
  auto question = asked.convolution;
  return question.replace(question.find('*'), 1, std::to_string(asked.batch));
}

void read_convolution_table(std::string_view text, Each const& each) {
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    auto const line = take(text, '\n');
    auto const words = words_of(line);
    if (words.empty() || words[0].front() == '#') continue;
    bool const understood = words.size() > kQuestionWords &&
                            (words[1].substr(0, 2) == "*," ? read_batches(words, each) : read_question(words, each));
    if (!understood) {
      throw std::runtime_error("line " + std::to_string(line_number) +
                               " of a convolution table is no question and answer: " + std::string(line));
    }
  }
}

std::string convolution_table_lines(ConvolutionAnswers const& answers) {
  std::map<std::string, std::map<std::int64_t, std::string>> by_convolution;
  for (auto const& [question, workspaces] : answers) {
    auto const parts = split_batch(question);
    if (!parts) throw std::invalid_argument("no batch size in the convolution's question: " + question);
    auto& said = by_convolution[parts->convolution][parts->batch];
    for (auto const bytes : workspaces) said += (said.empty() ? "" : ",") + std::to_string(bytes);
  }
  std::string text;
  for (auto const& [convolution, batches] : by_convolution) {
    text += convolution;
    for (auto const& [batch, workspaces] : batches) text += ' ' + std::to_string(batch) + ':' + workspaces;
    text += '\n';
  }
  return text;
}

std::string convolution_table_header(std::string_view text, std::string_view key) {
  std::string const beginning = "# " + std::string(key) + ": ";
  while (!text.empty()) {
    auto const line = take(text, '\n');
    if (line.substr(0, beginning.size()) == beginning) return std::string(line.substr(beginning.size()));
  }
  return {};
}

}  // namespace maxbatch::dry
