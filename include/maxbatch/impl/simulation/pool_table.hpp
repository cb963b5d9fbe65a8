#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/impl/simulation/block_table.hpp>
#include <maxbatch/impl/simulation/free_blocks.hpp>
#include <maxbatch/simulation/device_address.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

using ListIndex = std::uint16_t;
using PoolIndex = std::uint16_t;
using StreamIndex = std::uint16_t;

/// Addresses of an expandable segment without memory.
struct UnmappedBlock {
  DeviceAddress address = 0;
  BlockIndex block = kNoBlock;
};

/// What is free in one pool for one stream. LibTorch keeps a set per pool, ordered by stream first: these are its parts.
struct BlockList {
  StreamHandle stream = kDefaultStream;
  StreamIndex stream_index = 0;
  PoolIndex pool = 0;
  bool small = false;
  FreeBlocks free;
  std::vector<UnmappedBlock> unmapped;  // by address

  void insert_unmapped(DeviceAddress address, BlockIndex block) {
    unmapped.insert(first_unmapped_from(address), {address, block});
  }
  void erase_unmapped(DeviceAddress address) { unmapped.erase(first_unmapped_from(address)); }

 private:
  std::vector<UnmappedBlock>::iterator first_unmapped_from(DeviceAddress address) {
    return std::lower_bound(unmapped.begin(), unmapped.end(), address,
                            [](UnmappedBlock const& other, DeviceAddress at) { return other.address < at; });
  }
};

struct BlockPool {
  bool small = false;
  int private_pool = -1;
  std::uint32_t searches = 0;             // while garbage collection is on; ages are differences of it
  std::vector<ListIndex> lists;           // by stream handle, ascending
  std::vector<ListIndex> list_of_stream;  // by stream index; kNoList: none yet
};

struct PrivatePool {
  PrivatePoolId id;
  int use_count = 0;
  int device_segments = 0;
  bool no_split = false;
  bool use_on_oom = false;
  bool freeable = false;
  bool exists = false;
};

/// Pools, streams, and the lists of blocks at their crossings.
class PoolTable {
 public:
  static constexpr PoolIndex kLargePool = 0;
  static constexpr PoolIndex kSmallPool = 1;

  PoolTable() {
    pools_.resize(2);
    pools_[kSmallPool].small = true;
    streams_.push_back(kDefaultStream);
  }

  BlockList& list(ListIndex index) { return lists_[index]; }
  BlockList const& list(ListIndex index) const { return lists_[index]; }
  ListIndex list_count() const { return static_cast<ListIndex>(lists_.size()); }
  BlockPool& pool(PoolIndex index) { return pools_[index]; }
  BlockPool const& pool(PoolIndex index) const { return pools_[index]; }
  StreamHandle stream(StreamIndex index) const { return streams_[index]; }

  StreamIndex stream_index(StreamHandle stream) {
    if (streams_[last_stream_] == stream) { return last_stream_; }
    auto const found = std::find(streams_.begin(), streams_.end(), stream);
    last_stream_ = static_cast<StreamIndex>(found - streams_.begin());
    if (found == streams_.end()) { streams_.push_back(stream); }
    return last_stream_;
  }
  ListIndex list_of(PoolIndex pool, StreamIndex stream) {
    auto const& lists = pools_[pool].list_of_stream;
    if (stream < lists.size() && lists[stream] != kNoList) { return lists[stream]; }
    return add_list(pool, stream);
  }

  // Private pools: numbers that stay, each with a large and a small pool of blocks.
  static PoolIndex large_pool_of(int private_pool) { return static_cast<PoolIndex>(2 * private_pool + 2); }
  static PoolIndex small_pool_of(int private_pool) { return static_cast<PoolIndex>(2 * private_pool + 3); }
  PrivatePool& private_pool(int number) { return private_pools_[static_cast<std::size_t>(number)]; }
  PrivatePool const& private_pool(int number) const { return private_pools_[static_cast<std::size_t>(number)]; }
  int private_pool_count() const { return static_cast<int>(private_pools_.size()); }
  /// -1: there is none.
  int find_private_pool(PrivatePoolId id) const {
    for (int i = 0; i < private_pool_count(); ++i) {
      if (private_pool(i).exists && private_pool(i).id == id) { return i; }
    }
    return -1;
  }
  int add_private_pool(PrivatePoolId id) {
    auto number = 0;
    while (number < private_pool_count() && private_pool(number).exists) { ++number; }
    if (number == private_pool_count()) {
      private_pools_.emplace_back();
      pools_.resize(pools_.size() + 2);
      pools_[large_pool_of(number)].private_pool = number;
      pools_[small_pool_of(number)].private_pool = number;
      pools_[small_pool_of(number)].small = true;
    }
    pools_[large_pool_of(number)].searches = 0;
    pools_[small_pool_of(number)].searches = 0;
    private_pool(number) = PrivatePool{};
    private_pool(number).id = id;
    private_pool(number).exists = true;
    return number;
  }
  /// In ascending order of their ids.
  std::vector<int> private_pools_by_id() const {
    std::vector<int> numbers;
    for (int i = 0; i < private_pool_count(); ++i) {
      if (private_pool(i).exists) { numbers.push_back(i); }
    }
    std::sort(numbers.begin(), numbers.end(), [&](int a, int b) { return private_pool(a).id < private_pool(b).id; });
    return numbers;
  }

 private:
  static constexpr ListIndex kNoList = 0xffff;

  ListIndex add_list(PoolIndex pool_index, StreamIndex stream) {
    auto const index = list_count();
    lists_.emplace_back();
    auto& added = lists_.back();
    auto& pool = pools_[pool_index];
    added.stream = streams_[stream];
    added.stream_index = stream;
    added.pool = pool_index;
    added.small = pool.small;
    if (pool.list_of_stream.size() <= stream) { pool.list_of_stream.resize(stream + std::size_t{1}, kNoList); }
    pool.list_of_stream[stream] = index;
    pool.lists.insert(std::find_if(pool.lists.begin(), pool.lists.end(),
                                   [&](ListIndex other) { return lists_[other].stream > added.stream; }),
                      index);
    return index;
  }

  std::vector<BlockList> lists_;
  std::vector<BlockPool> pools_;
  std::vector<PrivatePool> private_pools_;
  std::vector<StreamHandle> streams_;
  StreamIndex last_stream_ = 0;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
