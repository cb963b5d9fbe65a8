#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/device_address.hpp>

#include <cstdint>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// A block that was handed out. Null: nothing was. Small integers that are used again: an array indexed by `index` stays
/// about as small as the largest number of blocks that there were at once; `generation` tells who is who.
struct BlockId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;

  explicit operator bool() const { return generation != 0; }
  friend bool operator==(BlockId a, BlockId b) { return a.index == b.index && a.generation == b.generation; }
  friend bool operator!=(BlockId a, BlockId b) { return !(a == b); }
};

enum class BlockState : std::uint8_t {
  free,
  allocated,
  awaiting_events,  // freed, but another stream may still use it
  unmapped          // addresses without memory, in an expandable segment
};

struct SimulatedBlock {
  BlockId id;  // null unless allocated or awaiting events
  DeviceAddress address = 0;
  Bytes size;
  Bytes requested;  // 0 unless allocated or awaiting events
  BlockState state = BlockState::free;
};

struct SimulatedSegment {
  DeviceAddress address = 0;
  Bytes size;  // with unmapped blocks
  StreamHandle stream = kDefaultStream;
  PrivatePoolId pool;
  bool is_large = false;
  bool is_expandable = false;
  std::vector<SimulatedBlock> blocks;  // by address, without gaps
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
