#pragma once

#include <cstddef>
#include <optional>

namespace maxbatch::dry {

/// Host memory that CUDA knows of.
enum class HostBlockKind { pinned, registered, managed };

struct HostBlock {
  HostBlockKind kind = HostBlockKind::pinned;
  int device = 0;  ///< current when it was made
  void* begin = nullptr;
  std::size_t bytes = 0;
};

/// Real host memory, page aligned; null when the host has none. Any thread, as all of these.
void* allocate_host_block(HostBlockKind kind, std::size_t bytes, int device);
/// False unless a block of that kind, not registered, begins there.
bool release_host_block(HostBlockKind kind, void* pointer);
/// False when it overlaps a known block.
bool register_host_block(void* pointer, std::size_t bytes, int device);
bool unregister_host_block(void* pointer);
std::optional<HostBlock> host_block_around(void const* pointer);

}  // namespace maxbatch::dry
