#pragma once

#include <maxbatch/impl/simulation/allocation_inl.hpp>
#include <maxbatch/impl/simulation/deallocation_inl.hpp>
#include <maxbatch/impl/simulation/expandable_inl.hpp>
#include <maxbatch/impl/simulation/inspection_inl.hpp>
#include <maxbatch/impl/simulation/private_pools_inl.hpp>
#include <maxbatch/impl/simulation/release_inl.hpp>
#include <maxbatch/simulation/caching_allocator_simulator.hpp>

#include <utility>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

constexpr std::size_t kUsualEvents = 1 << 15;  // addresses only, until they are written

inline void check_settings(AllocatorSettings const& settings) {
  auto const whole = [](Bytes size) { return size.count % (1 << 20) == 0; };
  auto const fail = [](std::string const& what) { throw InvalidAllocatorSettings("allocator settings: " + what); };
  if (settings.large_segment_size <= Bytes{10 << 20} || !whole(settings.large_segment_size)) {
    fail("large_segment_size is " + to_string(settings.large_segment_size) + "; it is a whole number of MiB above 10");
  }
  for (auto const size :
       {settings.max_split_size.value_or(settings.large_segment_size), settings.max_non_split_rounding}) {
    if (size < settings.large_segment_size) {
      fail("max_split_size and max_non_split_rounding are at least large_segment_size, " +
           to_string(settings.large_segment_size) + ", and not " + to_string(size));
    }
  }
  auto const threshold = settings.garbage_collection_threshold;
  if (!(threshold >= 0 && threshold < 1)) {
    fail("garbage_collection_threshold is " + std::to_string(threshold) + "; it lies between 0 and 1");
  }
  auto const fraction = settings.per_process_memory_fraction;
  if (!(fraction >= 0 && fraction <= 1)) {
    fail("per_process_memory_fraction is " + std::to_string(fraction) + "; it lies between 0 and 1");
  }
  for (auto const division : settings.roundup_power2_divisions) {
    if (division < 0 || (division & (division - 1)) != 0) {
      fail("roundup_power2_divisions are powers of two, or 0 for none, and not " + std::to_string(division));
    }
  }
}

inline std::optional<Bytes> limit_of(double fraction, Bytes total) {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw InvalidAllocatorCall("a memory fraction of " + std::to_string(fraction) + "; it lies between 0 and 1");
  }
  if (fraction == 1) { return std::nullopt; }
  return Bytes{static_cast<std::int64_t>(fraction * static_cast<double>(total.count))};
}

inline std::uint64_t requested_bytes(Bytes requested) {
  if (requested < Bytes{0}) { throw InvalidAllocatorCall("a request for " + to_string(requested)); }
  return static_cast<std::uint64_t>(requested.count);
}

MAXBATCH_INLINE AllocatorState::AllocatorState(AllocatorOptions const& options, DeviceAddressSpace address_space)
    : settings(options.settings),
      device(options.device),
      addresses(std::move(address_space)),
      records_events(options.record_events),
      rules_(options.settings),
      event_timing_(options.event_timing) {
  check_settings(settings);
  if (device.total_memory < Bytes{1} || device.total_memory > Bytes{std::int64_t{1} << 40} ||
      device.outside_memory < Bytes{0}) {
    throw InvalidAllocatorCall("a device with " + to_string(device.total_memory) + " of memory, of which others hold " +
                               to_string(device.outside_memory) + ": at most 1 TiB can be simulated");
  }
  limit = limit_of(settings.per_process_memory_fraction, device.total_memory);
  if (records_events) { history.reserve(kUsualEvents); }
}

MAXBATCH_INLINE void AllocatorState::set_settings(AllocatorSettings const& changed) {
  check_settings(changed);
  settings = changed;
  rules_ = SizeRules(changed);
}

MAXBATCH_INLINE void AllocatorState::set_limit(std::optional<Bytes> changed) {
  if (changed && *changed < Bytes{0}) { throw InvalidAllocatorCall("a limit of " + to_string(*changed)); }
  limit = changed;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE CachingAllocatorSimulator::CachingAllocatorSimulator(AllocatorOptions const& options,
                                                                     DeviceAddressSpace addresses)
    : state_(options, std::move(addresses)) {}

MAXBATCH_INLINE BlockId CachingAllocatorSimulator::allocate(Bytes requested, StreamHandle stream) {
  return state_.allocate(detail::requested_bytes(requested), stream);
}
MAXBATCH_INLINE BlockId CachingAllocatorSimulator::allocate(Bytes requested, StreamHandle stream, PrivatePoolId pool) {
  return state_.allocate_in(pool, detail::requested_bytes(requested), stream);
}
MAXBATCH_INLINE void CachingAllocatorSimulator::free(BlockId block) { state_.free(block); }
MAXBATCH_INLINE void CachingAllocatorSimulator::record_stream(BlockId block, StreamHandle stream) {
  state_.record_stream(block, stream);
}
MAXBATCH_INLINE void CachingAllocatorSimulator::synchronise(StreamHandle stream) { state_.synchronise(stream); }
MAXBATCH_INLINE void CachingAllocatorSimulator::synchronise() { state_.synchronise_all(); }
MAXBATCH_INLINE void CachingAllocatorSimulator::empty_cache(PrivatePoolId pool) { state_.empty_cache(pool); }
MAXBATCH_INLINE void CachingAllocatorSimulator::request_free(BlockId block) { state_.request_free(block); }
MAXBATCH_INLINE bool CachingAllocatorSimulator::complete_free(BlockId block) { return state_.complete_free(block); }

MAXBATCH_INLINE void CachingAllocatorSimulator::begin_allocate_to_pool(PrivatePoolId pool,
                                                                       std::optional<StreamHandle> stream) {
  state_.begin_allocate_to_pool(pool, stream);
}
MAXBATCH_INLINE void CachingAllocatorSimulator::end_allocate_to_pool(PrivatePoolId pool) {
  state_.end_allocate_to_pool(pool);
}
MAXBATCH_INLINE void CachingAllocatorSimulator::release_pool(PrivatePoolId pool) { state_.release_pool(pool); }
MAXBATCH_INLINE void CachingAllocatorSimulator::create_or_incref_pool(PrivatePoolId pool) {
  state_.create_or_incref_pool(pool);
}
MAXBATCH_INLINE void CachingAllocatorSimulator::set_use_on_oom(PrivatePoolId pool, bool use) {
  state_.set_use_on_oom(pool, use);
}
MAXBATCH_INLINE void CachingAllocatorSimulator::set_no_split(PrivatePoolId pool) { state_.set_no_split(pool); }
MAXBATCH_INLINE int CachingAllocatorSimulator::pool_use_count(PrivatePoolId pool) const {
  return state_.pool_use_count(pool);
}

MAXBATCH_INLINE void CachingAllocatorSimulator::set_limit(std::optional<Bytes> limit) { state_.set_limit(limit); }
MAXBATCH_INLINE std::optional<Bytes> CachingAllocatorSimulator::limit() const { return state_.limit; }
MAXBATCH_INLINE void CachingAllocatorSimulator::set_memory_fraction(double fraction) {
  state_.set_limit(detail::limit_of(fraction, state_.device.total_memory));
}
MAXBATCH_INLINE void CachingAllocatorSimulator::set_settings(AllocatorSettings const& settings) {
  state_.set_settings(settings);
}
MAXBATCH_INLINE AllocatorSettings const& CachingAllocatorSimulator::settings() const { return state_.settings; }
MAXBATCH_INLINE SimulatedDevice const& CachingAllocatorSimulator::device() const { return state_.device; }

MAXBATCH_INLINE AllocatorStatistics CachingAllocatorSimulator::statistics() const {
  return state_.counters.statistics();
}
MAXBATCH_INLINE Bytes CachingAllocatorSimulator::allocated_bytes() const {
  return Bytes{state_.counters.allocated_bytes.current};
}
MAXBATCH_INLINE Bytes CachingAllocatorSimulator::reserved_bytes() const {
  return Bytes{state_.counters.reserved_bytes.current};
}
MAXBATCH_INLINE Bytes CachingAllocatorSimulator::allocated_peak() const {
  return Bytes{state_.counters.allocated_bytes.peak};
}
MAXBATCH_INLINE Bytes CachingAllocatorSimulator::reserved_peak() const {
  return Bytes{state_.counters.reserved_bytes.peak};
}
MAXBATCH_INLINE void CachingAllocatorSimulator::reset_peak_statistics() { state_.counters.reset_peaks(); }
MAXBATCH_INLINE void CachingAllocatorSimulator::reset_accumulated_statistics() { state_.counters.reset_sums(); }
MAXBATCH_INLINE std::optional<RefusedRequest> const& CachingAllocatorSimulator::refused_request() const {
  return state_.refused;
}

MAXBATCH_INLINE bool CachingAllocatorSimulator::holds(BlockId block) const { return state_.holds(block); }
MAXBATCH_INLINE DeviceAddress CachingAllocatorSimulator::address_of(BlockId block) const {
  return state_.held(block).address;
}
MAXBATCH_INLINE Bytes CachingAllocatorSimulator::size_of(BlockId block) const {
  return Bytes{static_cast<std::int64_t>(state_.held(block).size)};
}
MAXBATCH_INLINE std::vector<SimulatedSegment> CachingAllocatorSimulator::segments() const { return state_.segments(); }
MAXBATCH_INLINE DeviceAddressSpace& CachingAllocatorSimulator::addresses() { return state_.addresses; }
MAXBATCH_INLINE DeviceAddressSpace const& CachingAllocatorSimulator::addresses() const { return state_.addresses; }

MAXBATCH_INLINE void CachingAllocatorSimulator::record_events(bool record) { state_.records_events = record; }
MAXBATCH_INLINE std::vector<AllocatorEvent> const& CachingAllocatorSimulator::events() const { return state_.history; }
MAXBATCH_INLINE std::vector<AllocatorEvent> CachingAllocatorSimulator::take_events() {
  return std::exchange(state_.history, {});
}
MAXBATCH_INLINE std::string CachingAllocatorSimulator::broken_invariant() const { return state_.broken_invariant(); }

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
