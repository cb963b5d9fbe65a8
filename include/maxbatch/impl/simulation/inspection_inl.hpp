#pragma once

#include <maxbatch/impl/simulation/allocator_state.hpp>
#include <maxbatch/impl/simulation/rounded_up.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

inline Bytes as_bytes(std::uint64_t amount) { return Bytes{static_cast<std::int64_t>(amount)}; }

MAXBATCH_INLINE std::vector<SimulatedSegment> AllocatorState::segments() const {
  std::vector<SimulatedSegment> all;
  for (BlockIndex first = 1; first < blocks_.end(); ++first) {
    if (!blocks_[first].live || blocks_[first].previous != kNoBlock) { continue; }
    auto const& list = pools_.list(blocks_[first].list);
    auto const& pool = pools_.pool(list.pool);
    SimulatedSegment segment;
    segment.address = blocks_[first].address;
    segment.stream = list.stream;
    segment.pool = pool.private_pool < 0 ? PrivatePoolId{} : pools_.private_pool(pool.private_pool).id;
    segment.is_large = !list.small;
    segment.is_expandable = blocks_[first].expandable != 0;
    for (auto index = first; index != kNoBlock; index = blocks_[index].next) {
      auto const& block = blocks_[index];
      SimulatedBlock part;
      part.address = block.address;
      part.size = as_bytes(block.size);
      part.state = block.allocated   ? BlockState::allocated
                   : !block.mapped   ? BlockState::unmapped
                   : block.is_free() ? BlockState::free
                                     : BlockState::awaiting_events;
      if (part.state == BlockState::allocated || part.state == BlockState::awaiting_events) {
        part.id = {index, block.generation};
        part.requested = as_bytes(block.requested);
      }
      segment.size = segment.size + part.size;
      segment.blocks.push_back(part);
    }
    all.push_back(std::move(segment));
  }
  std::sort(all.begin(), all.end(),
            [](SimulatedSegment const& a, SimulatedSegment const& b) { return a.address < b.address; });
  return all;
}

/// Counts everything again, from the blocks alone.
class InvariantCheck {
 public:
  void fail_unless(bool holds, std::string const& what) {
    if (!holds && complaint_.empty()) { complaint_ = what; }
  }
  std::string complaint() const { return complaint_; }

 private:
  std::string complaint_;
};

MAXBATCH_INLINE std::string AllocatorState::broken_invariant() const {
  InvariantCheck check;
  struct Sums {
    std::int64_t segment = 0, reserved = 0, allocation = 0, allocated = 0, active = 0, active_bytes = 0, requested = 0,
                 inactive_split = 0, inactive_split_bytes = 0, oversize = 0;
  };
  std::array<Sums, 2> sums;
  std::uint64_t device_used = 0;
  std::map<DeviceAddress, DeviceAddress> taken;  // address ranges of segments
  std::vector<std::set<BlockIndex>> free_of_list(pools_.list_count());
  std::vector<std::set<BlockIndex>> unmapped_of_list(pools_.list_count());
  auto const named = [](BlockIndex index) { return "block " + std::to_string(index); };
  std::size_t live = 0;
  std::size_t reached = 0;

  for (BlockIndex index = 1; index < blocks_.end(); ++index) {
    live += blocks_[index].live ? 1U : 0U;
    if (!blocks_[index].live || blocks_[index].previous != kNoBlock) { continue; }
    auto const& first = blocks_[index];
    auto const& list = pools_.list(first.list);
    auto& sum = sums[static_cast<std::size_t>(list.small)];
    std::uint64_t size = 0;
    for (auto at = index; at != kNoBlock && reached <= blocks_.end(); at = blocks_[at].next) {
      auto const& block = blocks_[at];
      ++reached;
      check.fail_unless(block.live, named(at) + " is in a segment, but not live");
      check.fail_unless(block.list == first.list && block.small == list.small && block.expandable == first.expandable,
                        named(at) + " is of another pool, stream or segment than its neighbours");
      check.fail_unless(block.address == first.address + size, named(at) + " does not follow its neighbour");
      check.fail_unless(block.size > 0 && block.size % kMinBlockSize == 0, named(at) + " has an impossible size");
      check.fail_unless(block.mapped || block.is_free(), named(at) + " is used without memory");
      size += block.size;
      auto const bytes = static_cast<std::int64_t>(block.size);
      if (block.expandable != 0 && block.mapped) {
        sum.reserved += bytes;
        device_used += block.size;
      }
      if (block.allocated) {
        ++sum.allocation;
        sum.allocated += bytes;
        sum.oversize += block.size >= rules_.max_split ? 1 : 0;
      }
      if (!block.is_free()) {
        ++sum.active;
        sum.active_bytes += bytes;
        sum.requested += static_cast<std::int64_t>(block.requested);
        check.fail_unless(block.requested > 0 && block.requested <= block.size,
                          named(at) + " is smaller than asked for");
      } else if (block.mapped) {
        free_of_list[block.list].insert(at);
        if (block.is_split() && block.expandable == 0) {
          ++sum.inactive_split;
          sum.inactive_split_bytes += bytes;
        }
      } else {
        unmapped_of_list[block.list].insert(at);
      }
      if (block.next != kNoBlock) {
        auto const& next = blocks_[block.next];
        check.fail_unless(next.previous == at, named(at) + " and its next one disagree");
        check.fail_unless(!(block.is_free() && next.is_free() && block.mapped == next.mapped),
                          named(at) + " should have been merged with its next one");
      }
    }
    if (first.expandable == 0) {
      ++sum.segment;
      sum.reserved += static_cast<std::int64_t>(size);
      device_used += rounded_up(size, DriverAddressSpace::kGranule);
    } else {
      auto const& segment = expandable_[first.expandable - 1];
      check.fail_unless(segment.exists && segment.address == first.address && segment.size == size,
                        named(index) + "'s expandable segment has another size or place");
    }
    auto const after = taken.lower_bound(first.address);
    check.fail_unless((after == taken.end() || after->first >= first.address + size) &&
                          (after == taken.begin() || std::prev(after)->second <= first.address),
                      "segments overlap at " + std::to_string(first.address));
    taken.emplace(first.address, first.address + size);
  }
  check.fail_unless(live == reached, "blocks are lost, or linked in a circle");

  for (ListIndex number = 0; number < pools_.list_count(); ++number) {
    auto const& list = pools_.list(number);
    std::set<BlockIndex> listed;
    FreeBlocks::Entry last;
    for (auto place = list.free.begin(); !place.is_end(); place = list.free.next(place)) {
      auto const& entry = list.free[place];
      auto const& block = blocks_[entry.block];
      check.fail_unless(block.address == entry.address && block.size == entry.size(),
                        named(entry.block) + " is listed with another size or address");
      check.fail_unless(
          listed.empty() || last.units < entry.units || (last.units == entry.units && last.address < entry.address),
          named(entry.block) + " is out of order");
      listed.insert(entry.block);
      last = entry;
    }
    check.fail_unless(listed == free_of_list[number] && listed.size() == list.free.count(),
                      "the free blocks of list " + std::to_string(number) + " are not those that are free");
    std::set<BlockIndex> listed_unmapped;
    for (auto const& unmapped : list.unmapped) {
      check.fail_unless(blocks_[unmapped.block].address == unmapped.address, named(unmapped.block) + " has moved");
      listed_unmapped.insert(unmapped.block);
    }
    check.fail_unless(listed_unmapped == unmapped_of_list[number],
                      "the unmapped blocks of list " + std::to_string(number) + " are not those that are unmapped");
  }

  for (std::size_t small = 0; small < 2; ++small) {
    auto const& sum = sums[small];
    auto const agree = [&](char const* name, PoolCounter const& counter, std::int64_t counted) {
      check.fail_unless(counter.pools[small].current == counted && counter.pools[small].peak >= counted,
                        std::string(name) + (small != 0 ? " of the small pool" : " of the large pool") + " is " +
                            std::to_string(counter.pools[small].current) + ", and the blocks say " +
                            std::to_string(counted));
      check.fail_unless(
          counter.current == counter.pools[0].current + counter.pools[1].current && counter.peak >= counter.current,
          std::string(name) + " is not the sum of the pools'");
    };
    agree("segment", counters.segment, sum.segment);
    agree("reserved_bytes", counters.reserved_bytes, sum.reserved);
    agree("allocation", counters.allocation, sum.allocation);
    agree("allocated_bytes", counters.allocated_bytes, sum.allocated);
    agree("active", counters.active, sum.active);
    agree("active_bytes", counters.active_bytes, sum.active_bytes);
    agree("requested_bytes", counters.requested_bytes, sum.requested);
    agree("inactive_split", counters.inactive_split, sum.inactive_split);
    agree("inactive_split_bytes", counters.inactive_split_bytes, sum.inactive_split_bytes);
  }
  check.fail_unless(device_used == device_used_, "the driver counts other bytes than the blocks hold");
  return check.complaint();
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
