#include "dry_cuda/libraries/convolution_table.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace maxbatch::dry {
namespace {

constexpr std::size_t kQuestionWords = 9;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    std::size_t const end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

/// Takes the first line off `text`.
std::string_view next_line(std::string_view& text) {
  std::size_t const end = text.find('\n');
  std::string_view const line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::optional<std::int64_t> number(std::string_view word) {
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value < 0) return std::nullopt;
  return value;
}

struct BatchedQuestion {
  std::int64_t batch = 0;
  std::string without_batch;
};

/// "forward 16,128,32,32 ..." is 16 and "forward ,128,32,32 ...".
std::optional<BatchedQuestion> split_batch(std::string_view question) {
  auto const begin = question.find(' ') + 1;  // 0 where there is no space
  auto const end = question.find(',', begin);
  if (begin == 0 || end == std::string_view::npos) return std::nullopt;
  auto const batch = number(question.substr(begin, end - begin));
  if (!batch) return std::nullopt;
  return BatchedQuestion{*batch, std::string(question.substr(0, begin)) + std::string(question.substr(end))};
}

/// Note [Batch sizes that nobody asked about]
/// Two batch sizes that a table has, next to the one that is asked about, tell the workspace if both say the same. Otherwise, if
/// both are small, they come from two kernels with a fixed need: the larger size's. Large
/// ones are copies and tiles of the tensors, and grow with the batch: the straight line, if it gives whole bytes. Where one of the
/// two needs nothing, they are of different kinds, and nothing is said. libraries/README.md says how often this is right.
std::optional<std::int64_t> between(std::int64_t at, std::pair<std::int64_t, std::int64_t> low,
                                    std::pair<std::int64_t, std::int64_t> high) {
  constexpr std::int64_t kSmall = 4096;
  if (low.second == high.second) return low.second;
  if (std::max(low.second, high.second) < kSmall) return high.second;
  if (low.second == 0 || high.second == 0) return std::nullopt;
  auto const rise = (high.second - low.second) * (at - low.first);
  if (rise % (high.first - low.first) != 0) return std::nullopt;
  auto const bytes = low.second + rise / (high.first - low.first);
  return bytes >= 0 ? std::make_optional(bytes) : std::nullopt;
}

}  // namespace

void ConvolutionTable::add(std::string_view text) {
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    auto const line = next_line(text);
    auto const words = words_of(line);
    if (words.empty() || words[0].front() == '#') continue;
    std::vector<std::int64_t> answers;
    bool understood = words.size() > kQuestionWords;
    std::string question;
    for (std::size_t i = 0; i < words.size() && understood; ++i) {
      if (i < kQuestionWords) {
        if (i > 0) question += ' ';
        question += words[i];
      } else if (auto const bytes = number(words[i])) {
        answers.push_back(*bytes);
      } else {
        understood = false;
      }
    }
    if (!understood) {
      throw std::runtime_error("line " + std::to_string(line_number) +
                               " of a convolution table is no question and answer: " + std::string(line));
    }
    if (auto const split = split_batch(question)) by_batch_[split->without_batch][split->batch] = answers.front();
    answers_[question] = std::move(answers);
  }
}

std::optional<std::int64_t> ConvolutionTable::find(std::string const& question, std::size_t rank) const {
  auto const found = answers_.find(question);
  if (found == answers_.end() || rank >= found->second.size()) return std::nullopt;
  return found->second[rank];
}

std::optional<std::int64_t> ConvolutionTable::find_near(std::string const& question) const {
  auto const split = split_batch(question);
  auto const found = split ? by_batch_.find(split->without_batch) : by_batch_.end();
  if (found == by_batch_.end() || found->second.size() < 2) return std::nullopt;
  auto const& sizes = found->second;
  // One on either side, else the two largest. Below what was asked about, and far above it, other plans win.
  constexpr std::int64_t kFar = 2;
  auto high = sizes.lower_bound(split->batch);
  if (high == sizes.begin() || split->batch > kFar * sizes.rbegin()->first) return std::nullopt;
  if (high == sizes.end()) --high;
  return between(split->batch, *std::prev(high), *high);
}

std::string ConvolutionTable::header_value(std::string_view text, std::string_view key) {
  std::string const beginning = "# " + std::string(key) + ": ";
  while (!text.empty()) {
    auto const line = next_line(text);
    if (line.substr(0, beginning.size()) == beginning) return std::string(line.substr(beginning.size()));
  }
  return {};
}

bool ConvolutionQuestionLog::write(std::string const& question) {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (!written_.insert(question).second) return false;
  if (path_.empty()) return true;
  // Opened for each line: the program may fork, close every descriptor, or change its folder. A single write of a line is not
  // torn by another process's.
  int const file = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return true;
  std::string const line = question + '\n';
  [[maybe_unused]] auto const written = ::write(file, line.data(), line.size());
  close(file);
  return true;
}

}  // namespace maxbatch::dry
