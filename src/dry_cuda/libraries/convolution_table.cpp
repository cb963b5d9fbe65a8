#include "dry_cuda/libraries/convolution_table.hpp"

#include "dry_cuda/libraries/convolution_table_text.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace maxbatch::dry {
namespace {

using Point = std::pair<std::int64_t, std::int64_t>;  // a batch size, and the workspace there

/// What the straight line through two points says.
std::int64_t on_line(std::int64_t at, Point low, Point high) {
  return low.second + (high.second - low.second) * (at - low.first) / (high.first - low.first);
}

/// To the block of LibTorch's allocator.
bool is_on_line(Point point, Point low, Point high) {
  constexpr std::int64_t kBlock = 512;
  auto const blocks = [](std::int64_t bytes) { return (bytes + kBlock - 1) / kBlock; };
  return blocks(on_line(point.first, low, high)) == blocks(point.second);
}

/// Note [Batch sizes that nobody asked about]
/// Two batch sizes that a table has, next to the one that is asked about, tell the workspace if both say the same. Otherwise, if
/// both are small, they come from two kernels with a fixed need: the larger size's; not of filters' gradients, which are summed in as
/// many parts as fill the card. Large ones are copies and tiles of the tensors, and grow with the batch: the straight line, if one of
/// the batch sizes beside those two lies on it, too, so that all are of one kind. Without TF32 in float there are few kinds, and the
/// line stands without a third. Where one of the two needs nothing, they are of different kinds, and nothing is said.
/// measured/neighbours.py counts how often this is right.
std::optional<std::int64_t> between(std::int64_t at, Point low, Point high, std::vector<Point> const& beside,
                                    std::string const& convolution) {
  constexpr std::int64_t kSmall = 4096;
  if (low.second == high.second) return low.second;
  if (std::max(low.second, high.second) < kSmall && convolution.rfind("backward_filter", 0) != 0) return high.second;
  if (low.second == 0 || high.second == 0) return std::nullopt;
  bool const has_many_kinds = convolution.find(" fp32") == std::string::npos;
  if (has_many_kinds && !beside.empty() &&
      std::none_of(beside.begin(), beside.end(), [&](Point point) { return is_on_line(point, low, high); })) {
    return std::nullopt;
  }
  auto const bytes = on_line(at, low, high);
  return bytes >= 0 ? std::make_optional(bytes) : std::nullopt;
}

/// The line of sorted ones that begins with `convolution`, or nothing. A header's, which begin with #, come before all others.
std::string_view line_of(std::string_view text, std::string const& convolution) {
  std::string const beginning = convolution + ' ';
  std::size_t low = 0;  // all lines that begin before it come before the one looked for; both are beginnings of lines
  std::size_t high = text.size();
  while (low < high) {
    auto const middle = low + (high - low) / 2;
    auto const before = middle == 0 ? std::string_view::npos : text.rfind('\n', middle - 1);
    auto const begin = before == std::string_view::npos ? 0 : before + 1;
    auto const end = std::min(text.find('\n', begin), text.size());
    auto const line = text.substr(begin, end - begin);
    auto const order = line.substr(0, beginning.size()).compare(beginning);
    if (order == 0) return line;
    if (order < 0) {
      low = std::min(end + 1, text.size());
    } else {
      high = begin;
    }
  }
  return {};
}

}  // namespace

void ConvolutionTable::add(std::string_view text) {
  read_convolution_table(text, [this](ConvolutionAtBatch const& question, std::vector<std::int64_t> workspaces) {
    answers_[question.convolution][question.batch] = std::move(workspaces);
  });
}

ConvolutionTable::ByBatch ConvolutionTable::batches_of(std::string const& convolution) const {
  auto const found = answers_.find(convolution);
  auto batches = found == answers_.end() ? ByBatch{} : found->second;
  for (auto const text : sorted_) {
    read_convolution_table(line_of(text, convolution), [&](auto const& question, std::vector<std::int64_t> workspaces) {
      batches.emplace(question.batch, std::move(workspaces));
    });
  }
  return batches;
}

std::optional<std::int64_t> ConvolutionTable::find(std::string const& question, std::size_t rank) const {
  auto const parts = split_batch(question);
  if (!parts) return std::nullopt;
  auto const batches = batches_of(parts->convolution);
  auto const found = batches.find(parts->batch);
  if (found == batches.end() || rank >= found->second.size()) return std::nullopt;
  return found->second[rank];
}

std::optional<std::int64_t> ConvolutionTable::find_near(std::string const& question) const {
  auto const parts = split_batch(question);
  auto const batches = parts ? batches_of(parts->convolution) : ByBatch{};
  if (batches.size() < 2) return std::nullopt;
  // One on either side, else the two largest. Below what was asked about, and far above it, other plans win.
  constexpr std::int64_t kFar = 2;
  auto high = batches.lower_bound(parts->batch);
  if (high == batches.begin() || parts->batch > kFar * batches.rbegin()->first) return std::nullopt;
  if (high == batches.end()) --high;
  auto const low = std::prev(high);
  auto const point = [](auto place) { return Point{place->first, place->second.front()}; };
  std::vector<Point> beside;
  if (low != batches.begin()) beside.push_back(point(std::prev(low)));
  if (std::next(high) != batches.end()) beside.push_back(point(std::next(high)));
  return between(parts->batch, point(low), point(high), beside, parts->convolution);
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
