#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::dry {

/// A question (ConvolutionQuestion::text()) and the workspaces in bytes of a card's plans for it, the first plan's first.
using ConvolutionAnswers = std::map<std::string, std::vector<std::int64_t>>;

/// A question in its two parts: "forward 16,128,32,32 ..." is 16 and "forward *,128,32,32 ...".
struct ConvolutionAtBatch {
  std::int64_t batch = 0;
  std::string convolution;
};

/// None when the question has no batch size in its second word.
std::optional<ConvolutionAtBatch> split_batch(std::string_view question);

/// The question of these two parts.
std::string question_text(ConvolutionAtBatch const& asked);

/// Reads a table's text. Empty lines and lines that begin with # say nothing; any other is a question and behind it the
/// workspaces of the first plans that the card's cuDNN could make, in bytes, in the heuristics' order, or a convolution with * for
/// its batch size, and behind it, for each batch size, the same with commas between:
///   forward 16,128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous half any 8683536 0
///   forward *,128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous half any 16:8683536,0 32:17367072,0
/// Batch sizes that follow each other, were all asked about, and answered alike, or each by the same step more than the one before,
/// may stand together: the first one's and behind ; the last one's workspaces, or only once what all said.
///   forward *,128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous half any 5-8:0,272 16-20:8683536,0;10854420,0
/// Throws: std::runtime_error with the number of a line that is none of these.
void read_convolution_table(
    std::string_view text,
    std::function<void(ConvolutionAtBatch const& question, std::vector<std::int64_t> workspaces)> const& each);

/// The lines of a table, one for each convolution, sorted: tables are compared with diff.
/// Throws: std::invalid_argument for a question without a batch size.
std::string convolution_table_lines(ConvolutionAnswers const& answers);

/// What a table's header says behind `# KEY:`, or nothing. It names the card and the cuDNN that answered: `# card: NVIDIA H200`,
/// `# cudnn: 91900`.
std::string convolution_table_header(std::string_view text, std::string_view key);

}  // namespace maxbatch::dry
