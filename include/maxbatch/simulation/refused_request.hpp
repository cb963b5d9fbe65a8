#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/device_address.hpp>

#include <optional>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// A request that the allocator could not serve, and what there was after its last attempt.
struct RefusedRequest {
  Bytes requested;
  Bytes rounded;
  Bytes segment_size;  // what would have been bought; LibTorch's message names this
  StreamHandle stream = kDefaultStream;
  Bytes allocated;
  Bytes reserved;                // after the flush
  std::optional<Bytes> allowed;  // the limit, if there was one
  Bytes device_free;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
