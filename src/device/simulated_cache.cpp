#include "simulated_cache.hpp"

#include "layout_teller.hpp"

namespace maxbatch::detail {
namespace {

AllocatorOptions options_with(AllocatorSettings const& settings) {
  AllocatorOptions options;
  options.settings = settings;
  options.device.total_memory = Bytes{std::int64_t{1} << 40};  // the budget refuses, not the device
  return options;
}

}  // namespace

SimulatedCache::SimulatedCache(AllocatorSettings const& settings) : simulator_(options_with(settings)) {}

void SimulatedCache::set_limit(Bytes limit) { simulator_.set_limit(limit); }

BlockId SimulatedCache::allocate(std::int64_t requested) { return simulator_.allocate(Bytes{requested}); }

void SimulatedCache::free(BlockId block) { simulator_.free(block); }

void SimulatedCache::flush() { simulator_.empty_cache(); }

std::uint64_t SimulatedCache::layout_fingerprint() const {
  LayoutFingerprint fingerprint;
  for (auto const& segment : simulator_.segments()) {
    fingerprint.mix(segment.address);
    for (auto const& block : segment.blocks) {
      fingerprint.mix(static_cast<std::uint64_t>(block.size.count));
      fingerprint.mix(static_cast<std::uint64_t>(block.state));
    }
  }
  return fingerprint.value();
}

}  // namespace maxbatch::detail
