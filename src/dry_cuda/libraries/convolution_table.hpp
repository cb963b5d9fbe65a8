#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace maxbatch::dry {

/// Workspaces of convolutions as a real card gave them. Without a driver cuDNN withholds some engines for fp32, so that its
/// plans, and their workspaces, are not always the card's.
///
/// Its format: convolution_table_text.hpp.
class ConvolutionTable {
 public:
  /// Adds what `text` holds; a later line goes before an earlier one of the same question.
  /// Throws: as read_convolution_table.
  void add(std::string_view text);

  /// Adds a text whose lines stand as convolution_table_lines writes them, behind a header, and must outlive the table. It is not
  /// read: a process that asks about a few of some ten thousand convolutions finds their lines by bisection. What add() has added
  /// goes before.
  void add_sorted(std::string_view text) { sorted_.push_back(text); }

  /// The workspace of the plan `rank` that a card could make for this question (0: the first).
  std::optional<std::int64_t> find(std::string const& question, std::size_t rank = 0) const;

  /// The first plan's workspace, as far as those of the same convolution at the two batch sizes next to the question's tell it; from
  /// the smallest that was asked about to twice the largest. Note [Batch sizes that nobody asked about].
  std::optional<std::int64_t> find_near(std::string const& question) const;

 private:
  using ByBatch = std::map<std::int64_t, std::vector<std::int64_t>>;
  ByBatch batches_of(std::string const& convolution) const;

  std::unordered_map<std::string, ByBatch> answers_;  ///< by the question with * for its batch size
  std::vector<std::string_view> sorted_;
};

/// The questions that no table answered, each written once to a file that several processes may share: a line each, as the
/// card's recorder reads them. Without a path nothing is written. Any thread.
class ConvolutionQuestionLog {
 public:
  explicit ConvolutionQuestionLog(std::string path) : path_(std::move(path)) {}

  /// Whether it is the first time.
  bool write(std::string const& question);

 private:
  std::string path_;
  mutable std::mutex mutex_;
  std::unordered_set<std::string> written_;
};

/// This process's table: those built in for its card and cuDNN, and over them the file MAXBATCH_CONVOLUTION_TABLE.
ConvolutionTable const& convolution_table();

/// This process's log: the file MAXBATCH_CONVOLUTION_QUESTIONS.
ConvolutionQuestionLog& convolution_questions();

/// The tables that the library brings along, as text. Written at build time from convolution_tables/.
std::vector<std::string_view> built_in_convolution_tables();

}  // namespace maxbatch::dry
