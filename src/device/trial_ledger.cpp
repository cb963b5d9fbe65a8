#include "trial_ledger.hpp"

#include <algorithm>
#include <utility>

namespace maxbatch::detail {
namespace {

BlockLayout::Rules no_rules() {
  BlockLayout::Rules rules;
  rules.rounded = [](std::int64_t requested) { return requested; };
  return rules;
}

}  // namespace

TrialLedger::TrialLedger(std::size_t capacity) : ring_(capacity), layout_(no_rules()) { marks_.reserve(kMostMarks); }

void TrialLedger::on_event(AllocatorEvent const& event) noexcept {
  while (!ring_.push(event)) {
    std::lock_guard<std::mutex> const lock(mutex_);
    count_all();
  }
}

void TrialLedger::on_refusal(SegmentRefusal const& refusal) noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (frozen_) { return; }
  refusal_ = refusal;
  workspace_refusals_ += refusal.is_workspace ? 1 : 0;
}

void TrialLedger::begin(BlockLayout::Rules rules, std::vector<TraceSegment> const& segments,
                        std::optional<Bytes> limit) {
  std::lock_guard<std::mutex> const lock(mutex_);
  layout_ = BlockLayout(std::move(rules), segments);
  limit_ = limit;
  take_early();
  for (auto const& event : early_) { layout_.apply(event); }
  early_ = {};
  begun_ = true;
  raise_peaks();  // what was there before
}

Phase TrialLedger::enter_phase(Phase phase) noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (frozen_) { return Phase::other; }
  if (marks_.size() == kMostMarks) { count_all(); }
  marks_.push_back({ring_.written(), phase});
  return std::exchange(entered_, phase);
}

void TrialLedger::freeze() {
  std::lock_guard<std::mutex> const lock(mutex_);
  count_all();
  frozen_ = true;
}

TrialEvidence TrialLedger::evidence() {
  std::lock_guard<std::mutex> const lock(mutex_);
  count_all();
  TrialEvidence evidence;
  evidence.peaks = peaks_;
  for (std::size_t i = 0; i < kAllPhases.size(); ++i) {
    if (phase_peaks_[i].reserved.count > 0) { evidence.phases.push_back({kAllPhases[i], phase_peaks_[i]}); }
  }
  evidence.allocation_count = granted_;
  evidence.reduced_workspaces = workspace_refusals_;
  evidence.out_of_memory_events = std::max<std::int64_t>(0, refusals_ - workspace_refusals_);
  if (!refused_event_) { return evidence; }

  FailedRequest request;
  request.phase = refused_phase_;
  request.requested = Bytes{refused_event_->size};
  Bytes const device_free{static_cast<std::int64_t>(refused_event_->address)};
  Bytes const reserved{reserved_when_refused_};
  evidence.free_at_failure = limit_ ? std::min(headroom(*limit_, reserved), device_free) : device_free;
  if (refusal_) {
    request.segment = Bytes{refusal_->segment};
    // What the device has free may lie in pieces, so that it refused although there was enough.
    auto const missing = headroom(*request.segment, *evidence.free_at_failure);
    if (missing.count > 0) { request.short_by_at_least = missing; }
  }
  evidence.failed_request = request;
  return evidence;
}

Bytes TrialLedger::still_allocated() {
  std::lock_guard<std::mutex> const lock(mutex_);
  count_all();
  return Bytes{layout_.handed_out()};
}

BlockLayout::Totals TrialLedger::totals() {
  std::lock_guard<std::mutex> const lock(mutex_);
  count_all();
  return layout_.totals();
}

bool TrialLedger::is_consistent() {
  std::lock_guard<std::mutex> const lock(mutex_);
  return layout_.is_consistent();
}

void TrialLedger::count_all() {
  if (!begun_) { return take_early(); }
  for (auto const& mark : marks_) {
    ring_.read_until(mark.event, [this](AllocatorEvent const& event) { count(event); });
    phase_ = mark.phase;
    if (!frozen_) { raise_peaks(); }  // a phase holds what was live when it began
  }
  marks_.clear();
  ring_.read_until(ring_.written(), [this](AllocatorEvent const& event) { count(event); });
}

void TrialLedger::take_early() {
  ring_.read_until(ring_.written(), [this](AllocatorEvent const& event) {
    if (snapshot_seen_) {
      early_.push_back(event);
    } else {
      snapshot_seen_ = event.action == TraceAction::snapshot;
    }
  });
}

void TrialLedger::count(AllocatorEvent const& event) {
  layout_.apply(event);
  if (frozen_) { return; }
  if (event.action == TraceAction::alloc) { ++granted_; }
  if (event.action == TraceAction::oom) { refused(event); }
  raise_peaks();
}

void TrialLedger::refused(AllocatorEvent const& event) {
  ++refusals_;
  refused_event_ = event;
  refused_phase_ = phase_;
  reserved_when_refused_ = layout_.totals().reserved;
}

void TrialLedger::raise_peaks() {
  auto const& now = layout_.totals();
  MemoryPeaks const held{Bytes{now.requested}, Bytes{now.allocated}, Bytes{now.active}, Bytes{now.reserved}};
  peaks_ = larger_of_each(peaks_, held);
  auto& of_phase = phase_peaks_[static_cast<std::size_t>(phase_)];
  of_phase = larger_of_each(of_phase, held);
}

}  // namespace maxbatch::detail
