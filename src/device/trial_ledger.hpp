#pragma once

#include "allocator_event.hpp"
#include "block_layout.hpp"
#include "event_ring.hpp"
#include <maxbatch/device/trial_evidence.hpp>
#include <maxbatch/search/phase.hpp>

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace maxbatch::detail {

/// What one trial did to one device's allocator: peaks by phase, refused requests, what is still handed out.
///
/// Under the allocator's lock an event is only written to a ring. It is counted when somebody asks, or when the ring is
/// full: then by the allocating thread itself, so that none is ever lost.
/// Threads: as AllocatorListener says; the rest from any thread, and never while holding the allocator's lock.
class TrialLedger final : public AllocatorListener {
 public:
  /// 2.6 MB; three steps of a Swin-L are 22,000 events.
  static constexpr std::size_t kUsualCapacity = std::size_t{1} << 16;

  /// Nothing counts before `begin`, which the first TraceAction::snapshot among the events stands for.
  explicit TrialLedger(std::size_t capacity = kUsualCapacity);

  void on_event(AllocatorEvent const& event) noexcept override;
  void on_refusal(SegmentRefusal const& refusal) noexcept override;

  /// `segments` are what the allocator had when it wrote the event snapshot; later events change them.
  void begin(BlockLayout::Rules rules, std::vector<TraceSegment> const& segments, std::optional<Bytes> limit);
  Phase enter_phase(Phase phase) noexcept;
  /// Peaks, refusals and phases end; what is handed out is still followed.
  void freeze();

  /// Without what only the device knows: allocation_retries, and free_at_failure where nothing was refused.
  TrialEvidence evidence();
  Bytes still_allocated();
  /// What the allocator holds now, by our count.
  BlockLayout::Totals totals();
  bool is_consistent();
  std::uint64_t event_count() const noexcept { return ring_.written(); }

 private:
  struct PhaseMark {
    std::uint64_t event = 0;
    Phase phase = Phase::other;
  };
  static constexpr std::size_t kMostMarks = 1024;

  void count_all();
  void take_early();
  void count(AllocatorEvent const& event);
  void refused(AllocatorEvent const& event);
  void raise_peaks();

  EventRing ring_;
  std::mutex mutex_;  // of all below; held for host work only
  BlockLayout layout_;
  bool begun_ = false;
  bool snapshot_seen_ = false;
  std::vector<AllocatorEvent> early_;  // between the snapshot and `begin`
  bool frozen_ = false;
  std::vector<PhaseMark> marks_;  // of events that are not counted yet
  Phase phase_ = Phase::other;    // of the last counted event
  Phase entered_ = Phase::other;  // the newest
  std::optional<Bytes> limit_;
  MemoryPeaks peaks_;
  std::array<MemoryPeaks, kAllPhases.size()> phase_peaks_;
  std::int64_t granted_ = 0;
  std::int64_t refusals_ = 0;            // events
  std::int64_t workspace_refusals_ = 0;  // observed
  std::optional<AllocatorEvent> refused_event_;
  Phase refused_phase_ = Phase::other;
  std::int64_t reserved_when_refused_ = 0;
  std::optional<SegmentRefusal> refusal_;  // the last observed
};

}  // namespace maxbatch::detail
