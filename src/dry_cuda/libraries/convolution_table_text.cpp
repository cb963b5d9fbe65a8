#include "dry_cuda/libraries/convolution_table_text.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
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

using Workspaces = std::vector<std::int64_t>;

/// None unless all are numbers, and there is one.
std::optional<Workspaces> workspaces_in(std::string_view text) {
  Workspaces workspaces;
  while (!text.empty()) {
    auto const bytes = number(take(text, ','));
    if (!bytes) return std::nullopt;
    workspaces.push_back(*bytes);
  }
  return workspaces.empty() ? std::nullopt : std::optional(std::move(workspaces));
}

/// Words of a line with a batch size in its question.
bool read_question(std::vector<std::string_view> const& words, Each const& each) {
  auto const question = split_batch(joined(words));
  if (!question) return false;
  Workspaces workspaces;
  for (std::size_t i = kQuestionWords; i < words.size(); ++i) {
    auto const bytes = number(words[i]);
    if (!bytes) return false;
    workspaces.push_back(*bytes);
  }
  each(*question, std::move(workspaces));
  return true;
}

/// What was said of one batch size, or of all from one to another.
struct Run {
  std::int64_t first = 0;
  std::int64_t last = 0;
  Workspaces at_first, at_last;

  static std::optional<Run> read(std::string_view word) {
    constexpr std::int64_t kLongest = 100'000;
    auto sizes = take(word, ':');
    bool const is_one = sizes.find('-') == std::string_view::npos;
    auto const first = number(take(sizes, '-'));
    auto const last = is_one ? first : number(sizes);
    auto const at_first = workspaces_in(take(word, ';'));
    auto const at_last = word.empty() ? at_first : workspaces_in(word);
    bool const fits = first && last && at_first && at_last && *first <= *last && *last - *first < kLongest &&
                      at_first->size() == at_last->size();
    return fits ? std::optional(Run{*first, *last, *at_first, *at_last}) : std::nullopt;
  }

  Workspaces at(std::int64_t batch) const {
    auto workspaces = at_first;
    for (std::size_t rank = 0; rank < workspaces.size() && first < last; ++rank) {
      workspaces[rank] += (at_last[rank] - at_first[rank]) / (last - first) * (batch - first);
    }
    return workspaces;
  }
};

/// Words of a line for all batch sizes of a convolution.
bool read_batches(std::vector<std::string_view> const& words, Each const& each) {
  ConvolutionAtBatch question{0, joined(words)};
  for (std::size_t i = kQuestionWords; i < words.size(); ++i) {
    auto const run = Run::read(words[i]);
    if (!run) return false;
    for (question.batch = run->first; question.batch <= run->last; ++question.batch)
      each(question, run->at(question.batch));
  }
  return true;
}

std::string text_of(Workspaces const& workspaces) {
  std::string text;
  for (auto const bytes : workspaces) text += (text.empty() ? "" : ",") + std::to_string(bytes);
  return text;
}

using AtBatches = std::map<std::int64_t, Workspaces>;

/// The last of the batch sizes from `first` on that each follow the one before, by the same step in every workspace.
AtBatches::const_iterator last_of_run(AtBatches const& batches, AtBatches::const_iterator first) {
  auto const steps = [](AtBatches::const_iterator from) {
    auto const to = std::next(from);
    Workspaces differences;
    for (std::size_t rank = 0; rank < from->second.size(); ++rank) {
      differences.push_back(to->second[rank] - from->second[rank]);
    }
    return differences;
  };
  auto const goes_on = [&](AtBatches::const_iterator from) {
    auto const to = std::next(from);
    return to != batches.end() && to->first == from->first + 1 && to->second.size() == from->second.size() &&
           steps(from) == steps(first);
  };
  auto last = first;
  while (goes_on(last)) ++last;
  return last;
}

/// As `read_batches` reads them. Two sizes are no shorter as a run.
std::string words_of_batches(AtBatches const& batches) {
  std::string text;
  for (auto at = batches.begin(); at != batches.end(); ++at) {
    auto const last = last_of_run(batches, at);
    text += ' ' + std::to_string(at->first);
    if (last->first > at->first + 1) {
      text += '-' + std::to_string(last->first) + ':' + text_of(at->second);
      if (last->second != at->second) text += ';' + text_of(last->second);
      at = last;
    } else {
      text += ':' + text_of(at->second);
    }
  }
  return text;
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
  std::map<std::string, AtBatches> by_convolution;
  for (auto const& [question, workspaces] : answers) {
    auto const parts = split_batch(question);
    if (!parts) throw std::invalid_argument("no batch size in the convolution's question: " + question);
    by_convolution[parts->convolution][parts->batch] = workspaces;
  }
  std::string text;
  for (auto const& [convolution, batches] : by_convolution) text += convolution + words_of_batches(batches) + '\n';
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
