#include "real_allocator.hpp"

#include "event_gate.hpp"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <stdexcept>

namespace maxbatch::test {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr c10::DeviceIndex kDevice = 0;

std::vector<AllocatorEvent>& heard() {
  static std::vector<AllocatorEvent> events;
  return events;
}

AllocatorAction action_of(allocator::TraceEntry::Action action) {
  switch (action) {
    case allocator::TraceEntry::ALLOC: return AllocatorAction::alloc;
    case allocator::TraceEntry::FREE_REQUESTED: return AllocatorAction::free_requested;
    case allocator::TraceEntry::FREE_COMPLETED: return AllocatorAction::free_completed;
    case allocator::TraceEntry::SEGMENT_ALLOC: return AllocatorAction::segment_alloc;
    case allocator::TraceEntry::SEGMENT_FREE: return AllocatorAction::segment_free;
    case allocator::TraceEntry::SEGMENT_MAP: return AllocatorAction::segment_map;
    case allocator::TraceEntry::SEGMENT_UNMAP: return AllocatorAction::segment_unmap;
    case allocator::TraceEntry::OOM: return AllocatorAction::oom;
    case allocator::TraceEntry::SNAPSHOT: break;
  }
  throw std::logic_error("an event that programs do not cause");
}

AllocatorStatistic statistic_of(c10::CachingAllocator::Stat const& stat) {
  return {stat.current, stat.peak, stat.allocated, stat.freed};
}

AllocatorPoolStatistic statistic_of(c10::CachingAllocator::StatArray const& stats) {
  using c10::CachingAllocator::StatType;
  auto const at = [&](StatType type) { return statistic_of(stats[static_cast<std::size_t>(type)]); };
  return {at(StatType::AGGREGATE), at(StatType::SMALL_POOL), at(StatType::LARGE_POOL)};
}

std::vector<c10::cuda::CUDAStream> const& streams() {
  static auto const all = [] {
    std::vector<c10::cuda::CUDAStream> made = {c10::cuda::getDefaultCUDAStream(kDevice)};
    while (made.size() < kMostStreams) { made.push_back(c10::cuda::getStreamFromPool(false, kDevice)); }
    return made;
  }();
  return all;
}

c10::cuda::CUDAStream const& stream_at(int number) { return streams().at(static_cast<std::size_t>(number)); }

SimulatedDevice describe() {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, kDevice));
  std::size_t free = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  auto const all = static_cast<std::int64_t>(properties.totalGlobalMem);
  return {Bytes{all}, Bytes{all - static_cast<std::int64_t>(free)}};
}

void start_once() {
  static bool const started = [] {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    c10::cuda::set_device(kDevice);
    static_cast<void>(streams());
    allocator::attachAllocatorTraceTracker([](allocator::TraceEntry const& entry) {
      AllocatorEvent event;
      event.action = action_of(entry.action_);
      event.address = entry.addr_;
      event.size = Bytes{static_cast<std::int64_t>(entry.size_)};
      event.stream = reinterpret_cast<StreamHandle>(entry.stream_);
      event.pool = {entry.mempool_.first, entry.mempool_.second};
      heard().push_back(event);
    });
    return true;
  }();
  static_cast<void>(started);
}

}  // namespace

struct RealAllocator::Impl {
  SimulatedDevice device;
  std::map<int, at::DataPtr> blocks;
  std::array<c10::MempoolId_t, kMostPools> pools;
  std::array<int, kMostPools> users{};
  std::array<bool, kMostPools> begun{};
  bool expanded = false;
  bool refused = false;
  static inline std::uint64_t next_pool = 1;
};

std::optional<std::string> RealAllocator::missing() {
  if (c10::cuda::device_count() == 0) {
    return "no CUDA device, and none pretended (maxbatch::dry_cuda ahead of LibTorch)";
  }
  return std::nullopt;
}

RealAllocator::RealAllocator() : impl_(std::make_unique<Impl>()) {
  start_once();
  for (auto& pool : impl_->pools) { pool = {0, Impl::next_pool++}; }
  impl_->device = describe();
  allocator::resetAccumulatedStats(kDevice);
  allocator::resetPeakStats(kDevice);
  heard().clear();
}

RealAllocator::~RealAllocator() {
  set_limit(std::nullopt);
  hold_events(false);
  for (int pool = 0; pool < kMostPools; ++pool) {
    auto const index = static_cast<std::size_t>(pool);
    if (impl_->begun.at(index)) { end_pool(pool); }
    while (impl_->users.at(index) > 0) {
      use_on_oom(pool, false);
      release_pool(pool);
    }
  }
  impl_->blocks.clear();
  empty_cache();  // still under the settings that what is counted as oversize was bought under
  if (impl_->expanded && impl_->refused) { fill_empty_segments(); }
  set_settings("expandable_segments:False,large_segment_size_mb:20");
  c10::cuda::setCurrentCUDAStream(stream_at(0));
}

SimulatedDevice RealAllocator::device() const { return impl_->device; }
StreamHandle RealAllocator::stream(int number) const {
  return reinterpret_cast<StreamHandle>(stream_at(number).stream());
}
PrivatePoolId RealAllocator::pool(int number) const {
  auto const id = impl_->pools.at(static_cast<std::size_t>(number));
  return {id.first, id.second};
}

/// An expandable segment whose first page was refused stays, and no flush removes it until it has held something.
void RealAllocator::fill_empty_segments() {
  set_settings("expandable_segments:True");
  for (auto block = 0; block < 2 * kMostStreams; ++block) {
    allocate(block, block % 2 == 0 ? std::uint64_t{512} : std::uint64_t{2} << 20, block / 2);
  }
  impl_->blocks.clear();
  empty_cache();
}

void RealAllocator::set_settings(std::string const& text) {
  impl_->expanded = impl_->expanded || text.find("expandable_segments:True") != std::string::npos;
  c10::CachingAllocator::setAllocatorSettings(text);
}
void RealAllocator::hold_events(bool hold) { test::hold_events(hold); }

bool RealAllocator::allocate(int block, std::uint64_t bytes, int stream) {
  c10::cuda::setCurrentCUDAStream(stream_at(stream));
  try {
    impl_->blocks.emplace(block, allocator::get()->allocate(bytes));
    return true;
  } catch (c10::OutOfMemoryError const&) {
    impl_->refused = true;
    return false;
  }
}
void RealAllocator::free(int block) { impl_->blocks.erase(block); }
void RealAllocator::record_stream(int block, int stream) {
  allocator::recordStream(impl_->blocks.at(block), stream_at(stream));
}
void RealAllocator::synchronise(int stream) { open_stream(stream_at(stream).stream()); }
void RealAllocator::empty_cache() { allocator::emptyCache(); }
void RealAllocator::empty_pool(int pool) { allocator::emptyCache(impl_->pools.at(static_cast<std::size_t>(pool))); }

void RealAllocator::set_limit(std::optional<std::int64_t> limit) {
  // Plain limit/total could come out one byte short.
  auto const fraction =
      limit ? (static_cast<double>(*limit) + 0.5) / static_cast<double>(impl_->device.total_memory.count) : 1.0;
  allocator::setMemoryFraction(fraction, kDevice);
}

void RealAllocator::begin_pool(int pool, int stream) {
  auto const index = static_cast<std::size_t>(pool);
  auto const only = stream < 0 ? nullptr : stream_at(stream).stream();
  auto const all = stream < 0;
  allocator::beginAllocateToPool(kDevice, impl_->pools.at(index),
                                 [only, all](cudaStream_t asking) { return all || asking == only; });
  impl_->begun.at(index) = true;
  ++impl_->users.at(index);
}
void RealAllocator::end_pool(int pool) {
  auto const index = static_cast<std::size_t>(pool);
  allocator::endAllocateToPool(kDevice, impl_->pools.at(index));
  impl_->begun.at(index) = false;
}
void RealAllocator::release_pool(int pool) {
  auto const index = static_cast<std::size_t>(pool);
  allocator::releasePool(kDevice, impl_->pools.at(index));
  --impl_->users.at(index);
}
void RealAllocator::incref_pool(int pool) {
  auto const index = static_cast<std::size_t>(pool);
  allocator::createOrIncrefPool(kDevice, impl_->pools.at(index));
  ++impl_->users.at(index);
}
int RealAllocator::pool_use_count(int pool) const {
  return allocator::getPoolUseCount(kDevice, impl_->pools.at(static_cast<std::size_t>(pool)));
}
void RealAllocator::use_on_oom(int pool, bool use) {
  allocator::setUseOnOOM(kDevice, impl_->pools.at(static_cast<std::size_t>(pool)), use);
}
void RealAllocator::no_split(int pool) {
  allocator::setNoSplit(kDevice, impl_->pools.at(static_cast<std::size_t>(pool)));
}
void RealAllocator::reset_peaks() { allocator::resetPeakStats(kDevice); }
void RealAllocator::reset_sums() { allocator::resetAccumulatedStats(kDevice); }

std::vector<AllocatorEvent> RealAllocator::take_events() { return std::exchange(heard(), {}); }

AllocatorStatistics RealAllocator::statistics() const {
  auto const real = allocator::getDeviceStats(kDevice);
  AllocatorStatistics all;
  all.allocation = statistic_of(real.allocation);
  all.segment = statistic_of(real.segment);
  all.active = statistic_of(real.active);
  all.inactive_split = statistic_of(real.inactive_split);
  all.allocated_bytes = statistic_of(real.allocated_bytes);
  all.reserved_bytes = statistic_of(real.reserved_bytes);
  all.active_bytes = statistic_of(real.active_bytes);
  all.inactive_split_bytes = statistic_of(real.inactive_split_bytes);
  all.requested_bytes = statistic_of(real.requested_bytes);
  all.oversize_allocations = statistic_of(real.oversize_allocations);
  all.oversize_segments = statistic_of(real.oversize_segments);
  all.num_alloc_retries = real.num_alloc_retries;
  all.num_ooms = real.num_ooms;
  all.num_sync_all_streams = real.num_sync_all_streams;
  all.num_device_alloc = real.num_device_alloc;
  all.num_device_free = real.num_device_free;
  return all;
}

}  // namespace maxbatch::test
