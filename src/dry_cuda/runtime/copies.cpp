#include "capture.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/card.hpp"
#include "dry_cuda/memory/host_blocks.hpp"
#include "dry_cuda/memory/known_bytes.hpp"
#include "dry_cuda/policies/policy_hooks.hpp"
#include "order.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <string>

namespace maxbatch::dry {
namespace {

bool is_kind(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyHostToDevice:
    case cudaMemcpyDeviceToHost:
    case cudaMemcpyDeviceToDevice:
    case cudaMemcpyDefault: return true;
  }
  return false;
}

/// The addresses tell the direction; that `kind` agrees with them is the caller's business, as on a card.
void copy(void* destination, void const* source, std::size_t bytes) {
  if (bytes == 0) { return; }
  if (is_device_address(destination)) {
    if (is_device_address(source)) {
      move_known_bytes(destination, source, bytes);
    } else {
      remember_bytes(destination, source, bytes);
    }
    tell_device_memory_written();
  } else if (is_device_address(source)) {
    if (!answer_read(destination, source, bytes)) { read_bytes(destination, source, bytes); }
  } else {
    std::memmove(destination, source, bytes);
  }
  note_work();
}

/// What every copy and fill begins with. `captured`: it became a node of a graph, and nothing is copied. Also a copy that its
/// caller waits for is allowed in a capture: a card refuses it only where the legacy stream itself may not be used.
cudaError_t take_turn(cudaStream_t stream, bool* captured) {
  *captured = false;
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  return submit(stream, captured);
}

cudaError_t copy_rows(void* destination, std::size_t destination_pitch, void const* source, std::size_t source_pitch,
                      std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!is_kind(kind)) { return cudaErrorInvalidMemcpyDirection; }
  if (width > destination_pitch || width > source_pitch) { return cudaErrorInvalidPitchValue; }
  bool captured = false;
  if (auto const status = take_turn(stream, &captured); status != cudaSuccess || captured) { return status; }
  for (std::size_t row = 0; row < height; ++row) {
    copy(static_cast<char*>(destination) + row * destination_pitch,
         static_cast<char const*>(source) + row * source_pitch, width);
  }
  return cudaSuccess;
}

cudaError_t checked_copy(void* destination, void const* source, std::size_t bytes, cudaMemcpyKind kind,
                         cudaStream_t stream) {
  if (!is_kind(kind)) { return cudaErrorInvalidMemcpyDirection; }
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  if (bytes > 0 && (destination == nullptr || source == nullptr)) { return cudaErrorInvalidValue; }
  bool captured = false;
  if (auto const status = take_turn(stream, &captured); status != cudaSuccess || captured) { return status; }
  copy(destination, source, bytes);
  return cudaSuccess;
}

cudaError_t fill(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  if (bytes == 0) { return cudaSuccess; }
  bool captured = false;
  if (auto const status = take_turn(stream, &captured); status != cudaSuccess || captured) { return status; }
  if (pointer == nullptr) { return cudaErrorInvalidValue; }
  if (!is_device_address(pointer) && !host_block_around(pointer)) { return cudaErrorInvalidValue; }
  if (is_device_address(pointer)) {
    constexpr std::size_t kWorthKnowing = 4096;
    if (bytes <= kWorthKnowing) {
      remember_bytes(pointer, std::string(bytes, static_cast<char>(value)).data(), bytes);
    } else {
      forget_bytes(pointer, bytes);
    }
    tell_device_memory_written();
  } else {
    std::memset(pointer, value, bytes);
  }
  note_work();
  return cudaSuccess;
}

constexpr std::nullptr_t kLegacy = nullptr;  // the stream that is none

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudaError_t cudaMemcpy(void* destination, void const* source, std::size_t bytes,
                                          cudaMemcpyKind kind) {
  return finish(checked_copy(destination, source, bytes, kind, kLegacy));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemcpyAsync(void* destination, void const* source, std::size_t bytes,
                                               cudaMemcpyKind kind, cudaStream_t stream) {
  return finish(checked_copy(destination, source, bytes, kind, stream));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemcpyPeer(void* destination, int, void const* source, int, std::size_t bytes) {
  return finish(checked_copy(destination, source, bytes, cudaMemcpyDefault, kLegacy));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemcpyPeerAsync(void* destination, int, void const* source, int, std::size_t bytes,
                                                   cudaStream_t stream) {
  return finish(checked_copy(destination, source, bytes, cudaMemcpyDefault, stream));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemcpy2D(void* destination, std::size_t destination_pitch, void const* source,
                                            std::size_t source_pitch, std::size_t width, std::size_t height,
                                            cudaMemcpyKind kind) {
  return finish(copy_rows(destination, destination_pitch, source, source_pitch, width, height, kind, kLegacy));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemcpy2DAsync(void* destination, std::size_t destination_pitch, void const* source,
                                                 std::size_t source_pitch, std::size_t width, std::size_t height,
                                                 cudaMemcpyKind kind, cudaStream_t stream) {
  return finish(copy_rows(destination, destination_pitch, source, source_pitch, width, height, kind, stream));
}
/// A symbol of a module: nothing can read it back but kernels.
MAXBATCH_DRY_ENTRY cudaError_t cudaMemcpyToSymbol(void const*, void const*, std::size_t, std::size_t, cudaMemcpyKind) {
  return finish(ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemcpyToSymbolAsync(void const*, void const*, std::size_t, std::size_t,
                                                       cudaMemcpyKind, cudaStream_t) {
  return finish(ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) {
  return finish(fill(pointer, value, bytes, kLegacy));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  return finish(fill(pointer, value, bytes, stream));
}
/// Moves nothing: managed memory lives on the host.
MAXBATCH_DRY_ENTRY cudaError_t cudaMemPrefetchAsync(void const*, std::size_t, cudaMemLocation, unsigned, cudaStream_t) {
  return finish(ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemAdvise(void const*, std::size_t, cudaMemoryAdvise, cudaMemLocation) {
  return finish(ready());
}
