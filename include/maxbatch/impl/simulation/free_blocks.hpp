#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/simulation/device_address.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

constexpr std::uint64_t kMinBlockSize = 512;  // every size is a multiple of it

/// The free blocks of one pool and stream, ordered by size, then address.
///
/// Sizes fall into bins, eight to each doubling, and a bin holds its blocks in order: a trace has some two hundred free
/// blocks, so a bin has a handful. The bins lie in one array, so that copying costs next to nothing.
/// Sizes are below 2 TiB.
class FreeBlocks {
 public:
  struct Entry {
    DeviceAddress address = 0;
    std::uint32_t units = 0;  // of kMinBlockSize
    std::uint32_t block = 0;

    std::uint64_t size() const { return units * kMinBlockSize; }
  };
  /// Of an entry; valid until the next change.
  struct Place {
    std::uint32_t bin = kBins;
    std::uint32_t index = 0;

    bool is_end() const { return bin == kBins; }
  };

  void insert(std::uint64_t size, DeviceAddress address, std::uint32_t block) {
    Entry const entry{address, static_cast<std::uint32_t>(size / kMinBlockSize), block};
    auto const number = bin_of(entry.units);
    auto& bin = bins_[number];
    if (bin.count == bin.capacity) { grow(bin); }
    auto* const entries = &entries_[bin.first];
    auto at = bin.count;
    while (at > 0 && is_before(entry, entries[at - 1])) {
      entries[at] = entries[at - 1];
      --at;
    }
    entries[at] = entry;
    if (bin.count++ == 0) { occupied_[number / 64] |= std::uint64_t{1} << (number % 64); }
    ++count_;
  }

  /// The entry must be there.
  void erase(std::uint64_t size, DeviceAddress address) {
    auto const units = static_cast<std::uint32_t>(size / kMinBlockSize);
    auto const number = bin_of(units);
    auto const& bin = bins_[number];
    auto const* const entries = &entries_[bin.first];
    std::uint32_t at = 0;
    if (bin.count > 8) { at = first_at_least(entries, bin.count, Entry{address, units, 0}); }
    while (entries[at].address != address) { ++at; }
    erase({number, at});
  }

  void erase(Place place) {
    auto& bin = bins_[place.bin];
    auto* const entries = &entries_[bin.first];
    --bin.count;
    for (auto at = place.index; at < bin.count; ++at) { entries[at] = entries[at + 1]; }
    if (bin.count == 0) { occupied_[place.bin / 64] &= ~(std::uint64_t{1} << (place.bin % 64)); }
    --count_;
  }

  /// The smallest block of at least `size`, of the lowest address.
  Place lower_bound(std::uint64_t size) const {
    if (size > kLargestSize) { return {}; }
    auto const units = static_cast<std::uint32_t>(size / kMinBlockSize);
    auto const number = bin_of(units);
    auto const& bin = bins_[number];
    if (bin.count != 0) {
      auto const* const entries = &entries_[bin.first];
      if (entries[bin.count - 1].units >= units) {
        std::uint32_t at = 0;
        if (bin.count > 16) {
          at = first_at_least(entries, bin.count, Entry{0, units, 0});
        } else {
          while (entries[at].units < units) { ++at; }
        }
        return {number, at};
      }
    }
    return {next_occupied(number + 1), 0};
  }

  Place begin() const { return {next_occupied(0), 0}; }
  Place next(Place place) const {
    if (place.index + 1 < bins_[place.bin].count) { return {place.bin, place.index + 1}; }
    return {next_occupied(place.bin + 1), 0};
  }
  /// The entry before `place`, which may be the end; the end when there is none.
  Place previous(Place place) const {
    if (!place.is_end() && place.index > 0) { return {place.bin, place.index - 1}; }
    for (auto number = place.bin; number-- > 0;) {
      if (bins_[number].count != 0) { return {number, bins_[number].count - 1}; }
    }
    return {};
  }
  Entry const& operator[](Place place) const { return entries_[bins_[place.bin].first + place.index]; }

  std::size_t count() const { return count_; }

 private:
  static constexpr std::uint32_t kBins = 256;
  static constexpr std::uint64_t kLargestSize = (std::uint64_t{1} << 41) - kMinBlockSize;
  static constexpr std::uint32_t kFirstCapacity = 4;

  struct Bin {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::uint32_t capacity = 0;
  };

  static bool is_before(Entry const& a, Entry const& b) {
    return a.units != b.units ? a.units < b.units : a.address < b.address;
  }
  static std::uint32_t bin_of(std::uint32_t units) {
    if (units < 8) { return units; }
    auto const doublings = static_cast<std::uint32_t>(31 - __builtin_clz(units)) - 3;
    return doublings * 8 + (units >> doublings);
  }
  static std::uint32_t first_at_least(Entry const* entries, std::uint32_t count, Entry const& wanted) {
    return static_cast<std::uint32_t>(std::lower_bound(entries, entries + count, wanted, is_before) - entries);
  }

  std::uint32_t next_occupied(std::uint32_t number) const {
    auto word = number / 64;
    if (word >= occupied_.size()) { return kBins; }
    auto bits = occupied_[word] & (~std::uint64_t{0} << (number % 64));
    while (bits == 0) {
      if (++word == occupied_.size()) { return kBins; }
      bits = occupied_[word];
    }
    return word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(bits));
  }

  /// Moves a full bin to twice the room. Room that was left is used again by bins that need as much.
  void grow(Bin& bin) {
    auto const capacity = bin.capacity == 0 ? kFirstCapacity : 2 * bin.capacity;
    auto const first = take_room(capacity);
    std::copy_n(entries_.begin() + bin.first, bin.count, entries_.begin() + first);
    if (bin.capacity != 0) { rooms_[level_of(bin.capacity)].push_back(bin.first); }
    bin.first = first;
    bin.capacity = capacity;
  }
  std::uint32_t take_room(std::uint32_t capacity) {
    auto const level = level_of(capacity);
    if (level >= rooms_.size()) { rooms_.resize(level + 1); }
    if (!rooms_[level].empty()) {
      auto const first = rooms_[level].back();
      rooms_[level].pop_back();
      return first;
    }
    auto const first = static_cast<std::uint32_t>(entries_.size());
    entries_.resize(entries_.size() + capacity);
    return first;
  }
  static std::size_t level_of(std::uint32_t capacity) {
    return static_cast<std::size_t>(31 - __builtin_clz(capacity)) - 2;
  }

  std::array<std::uint64_t, kBins / 64> occupied_{};
  std::array<Bin, kBins> bins_{};
  std::vector<Entry> entries_;
  std::vector<std::vector<std::uint32_t>> rooms_;  // that no bin uses, by capacity
  std::size_t count_ = 0;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
