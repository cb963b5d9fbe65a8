#pragma once

#include <maxbatch/simulation/allocator_event.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace maxbatch::test {

/// The rules of the caching allocator as one would write them down: segments are lists of pieces, and everything is looked
/// for by looking at everything. No lists of free blocks, no counters that are kept up: sums are added up when asked for.
/// Without expandable segments, garbage collection and private pools.
class SlowAllocator {
 public:
  explicit SlowAllocator(std::uint64_t seed) : random_(seed) {}

  std::uint64_t divisions = 0;  // between powers of two, for all sizes
  std::uint64_t large_segment = 20 * kMib;
  std::uint64_t max_split = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t max_rounding = 20 * kMib;
  std::optional<std::uint64_t> limit;
  int retries = 0;
  std::vector<AllocatorEvent> events;

  /// The address, or none.
  std::optional<DeviceAddress> allocate(std::uint64_t bytes, StreamHandle stream) {
    auto const size = rounded(bytes);
    auto found = best_fit(size, stream);
    if (found.piece == nullptr) {
      auto const segment = size <= kMib ? 2 * kMib : size < 10 * kMib ? large_segment : up(size, 2 * kMib);
      auto bought = buy(segment, size <= kMib, stream);
      if (!bought && give_back_oversize(size, stream)) { bought = buy(segment, size <= kMib, stream); }
      if (!bought) {
        flush();
        ++retries;
        bought = buy(segment, size <= kMib, stream);
      }
      if (!bought) {
        say(AllocatorAction::oom, 0, size, stream);
        return std::nullopt;
      }
      found = {&segments_.back(), &segments_.back().pieces.front()};
    }
    auto& pieces = found.segment->pieces;
    auto const index = static_cast<std::size_t>(found.piece - pieces.data());
    auto const rest = pieces[index].size - size;
    if (found.segment->small ? rest >= 512 : (size < max_split && rest > kMib)) {
      Piece tail = pieces[index];
      tail.address += size;
      tail.size = rest;
      pieces[index].size = size;
      pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(index) + 1, tail);
    }
    auto& piece = pieces[index];
    piece.state = State::held;
    piece.bytes = bytes;
    say(AllocatorAction::alloc, piece.address, bytes, stream);
    return piece.address;
  }

  void request_free(DeviceAddress address) {
    auto const [segment, piece] = at(address);
    piece->state = State::waiting;
    piece->since = ++clock_;
    say(AllocatorAction::free_requested, address, piece->bytes, segment->stream);
  }
  void complete_free(DeviceAddress address) {
    auto const [segment, piece] = at(address);
    piece->state = State::free;
    say(AllocatorAction::free_completed, address, piece->bytes, segment->stream);
    auto& pieces = segment->pieces;
    for (std::size_t i = 0; i + 1 < pieces.size();) {
      if (pieces[i].state == State::free && pieces[i + 1].state == State::free) {
        pieces[i].size += pieces[i + 1].size;
        pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      } else {
        ++i;
      }
    }
  }
  /// Waits for everything that waits, then gives back every whole segment: large ones first, each pool by stream, size and
  /// address.
  void flush() {
    while (auto const address = longest_waiting()) { complete_free(*address); }
    for (bool const small : {false, true}) {
      std::vector<Segment> whole;
      for (auto const& segment : segments_) {
        if (segment.small == small && is_whole(segment)) { whole.push_back(segment); }
      }
      std::sort(whole.begin(), whole.end(), comes_before);
      for (auto const& segment : whole) { give_back(segment.pieces.front().address); }
    }
  }

  bool is_waiting(DeviceAddress address) const {
    for (auto const& segment : segments_) {
      for (auto const& piece : segment.pieces) {
        if (piece.address == address) { return piece.state == State::waiting; }
      }
    }
    return false;
  }

  std::int64_t reserved() const {
    return sum([](Piece const&) { return true; });
  }
  std::int64_t allocated() const {
    return sum([](Piece const& piece) { return piece.state == State::held; });
  }
  std::int64_t active() const {
    return sum([](Piece const& piece) { return piece.state != State::free; });
  }
  std::int64_t inactive_split() const {
    std::int64_t all = 0;
    for (auto const& segment : segments_) {
      for (auto const& piece : segment.pieces) {
        if (piece.state == State::free && segment.pieces.size() > 1) { all += static_cast<std::int64_t>(piece.size); }
      }
    }
    return all;
  }

 private:
  static constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
  enum class State { free, held, waiting };
  struct Piece {
    DeviceAddress address = 0;
    std::uint64_t size = 0;
    std::uint64_t bytes = 0;
    State state = State::free;
    std::uint64_t since = 0;
  };
  struct Segment {
    bool small = false;
    StreamHandle stream = 0;
    std::vector<Piece> pieces;
  };
  struct Found {
    Segment* segment = nullptr;
    Piece* piece = nullptr;
  };

  static std::uint64_t up(std::uint64_t value, std::uint64_t step) { return (value + step - 1) / step * step; }
  std::uint64_t rounded(std::uint64_t bytes) const {
    if (bytes < 512) { return 512; }
    if (divisions > 1 && bytes > 512 * divisions) {
      std::uint64_t power = 1;
      while (power * 2 <= bytes) { power *= 2; }
      return up(bytes, power / divisions);
    }
    return up(bytes, 512);
  }
  static bool is_whole(Segment const& segment) {
    return segment.pieces.size() == 1 && segment.pieces.front().state == State::free;
  }
  static bool comes_before(Segment const& a, Segment const& b) {
    if (a.stream != b.stream) { return a.stream < b.stream; }
    if (a.pieces.front().size != b.pieces.front().size) { return a.pieces.front().size < b.pieces.front().size; }
    return a.pieces.front().address < b.pieces.front().address;
  }

  Found best_fit(std::uint64_t size, StreamHandle stream) {
    Found best;
    for (auto& segment : segments_) {
      if (segment.stream != stream || segment.small != (size <= kMib)) { continue; }
      for (auto& piece : segment.pieces) {
        if (piece.state != State::free || piece.size < size) { continue; }
        if (best.piece == nullptr || piece.size < best.piece->size ||
            (piece.size == best.piece->size && piece.address < best.piece->address)) {
          best = {&segment, &piece};
        }
      }
    }
    if (best.piece == nullptr) { return {}; }
    auto const too_large = size < max_split ? best.piece->size >= max_split : best.piece->size >= size + max_rounding;
    return too_large ? Found{} : best;
  }

  bool buy(std::uint64_t size, bool small, StreamHandle stream) {
    if (limit && static_cast<std::uint64_t>(reserved()) + size > *limit) { return false; }
    auto const taken = [&](DeviceAddress address) {
      return std::any_of(segments_.begin(), segments_.end(), [&](Segment const& other) {
        return other.pieces.front().address < address + size &&
               address < other.pieces.back().address + other.pieces.back().size;
      });
    };
    auto address = DeviceAddress{1} << 40;
    do { address = (DeviceAddress{1} << 40) + random_() % (1U << 20) * 2 * kMib; } while (taken(address));
    Segment segment;
    segment.small = small;
    segment.stream = stream;
    segment.pieces.push_back({address, size, 0, State::free, 0});
    segments_.push_back(segment);
    say(AllocatorAction::segment_alloc, address, size, stream);
    return true;
  }
  void give_back(DeviceAddress address) {
    auto const found = std::find_if(segments_.begin(), segments_.end(),
                                    [&](Segment const& segment) { return segment.pieces.front().address == address; });
    say(AllocatorAction::segment_free, address, found->pieces.front().size, found->stream);
    segments_.erase(found);
  }
  bool give_back_oversize(std::uint64_t size, StreamHandle stream) {
    if (max_split == std::numeric_limits<std::uint64_t>::max()) { return false; }
    auto const wanted = std::max(size, max_split);
    std::vector<Segment> fitting;
    for (auto const& segment : segments_) {
      if (segment.stream == stream && segment.small == (size <= kMib) && is_whole(segment) &&
          segment.pieces.front().size >= max_split) {
        fitting.push_back(segment);
      }
    }
    std::sort(fitting.begin(), fitting.end(), comes_before);
    for (auto const& segment : fitting) {
      if (segment.pieces.front().size >= wanted) {
        give_back(segment.pieces.front().address);
        return true;
      }
    }
    std::uint64_t freed = 0;
    for (auto segment = fitting.rbegin(); segment != fitting.rend() && freed < wanted; ++segment) {
      freed += segment->pieces.front().size;
      give_back(segment->pieces.front().address);
    }
    return freed >= wanted;
  }

  Found at(DeviceAddress address) {
    for (auto& segment : segments_) {
      for (auto& piece : segment.pieces) {
        if (piece.address == address) { return {&segment, &piece}; }
      }
    }
    return {};
  }
  std::optional<DeviceAddress> longest_waiting() const {
    Piece const* longest = nullptr;
    for (auto const& segment : segments_) {
      for (auto const& piece : segment.pieces) {
        if (piece.state == State::waiting && (longest == nullptr || piece.since < longest->since)) { longest = &piece; }
      }
    }
    return longest == nullptr ? std::nullopt : std::optional(longest->address);
  }
  template <typename Counts>
  std::int64_t sum(Counts counts) const {
    std::int64_t all = 0;
    for (auto const& segment : segments_) {
      for (auto const& piece : segment.pieces) { all += counts(piece) ? static_cast<std::int64_t>(piece.size) : 0; }
    }
    return all;
  }
  void say(AllocatorAction action, DeviceAddress address, std::uint64_t size, StreamHandle stream) {
    events.push_back({action, address, Bytes{static_cast<std::int64_t>(size)}, stream, {}});
  }

  std::mt19937_64 random_;
  std::uint64_t clock_ = 0;
  std::vector<Segment> segments_;
};

}  // namespace maxbatch::test
