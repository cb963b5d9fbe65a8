#pragma once

#include "allocator_event.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxbatch::detail {

/// Events on their way from whoever holds the allocator's lock to whoever wants to know: a fixed buffer, no waiting.
/// Threads: one writer at a time (the lock sees to it) and one reader at a time, which need not know of each other.
class EventRing {
 public:
  /// `capacity` is a power of two.
  explicit EventRing(std::size_t capacity) : events_(capacity) {}

  /// False, with nothing written, when there is no room.
  bool push(AllocatorEvent const& event) noexcept {
    auto const written = written_.load(std::memory_order_relaxed);
    if (written - read_.load(std::memory_order_acquire) == events_.size()) { return false; }
    events_[written & (events_.size() - 1)] = event;
    written_.store(written + 1, std::memory_order_release);
    return true;
  }

  /// How many were ever written: the number of the next event.
  std::uint64_t written() const noexcept { return written_.load(std::memory_order_acquire); }
  std::uint64_t read() const noexcept { return read_.load(std::memory_order_relaxed); }

  /// Gives the events before number `end` to `take(event)`, oldest first.
  template <typename Take>
  void read_until(std::uint64_t end, Take&& take) {
    for (auto number = read_.load(std::memory_order_relaxed); number < end; ++number) {
      take(events_[number & (events_.size() - 1)]);
      read_.store(number + 1, std::memory_order_release);
    }
  }

 private:
  std::vector<AllocatorEvent> events_;
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> read_{0};
};

}  // namespace maxbatch::detail
