#pragma once

#include <cstddef>

namespace maxbatch::dry {

/// Device memory has no contents. The few bytes whose value is certain are those that the host has just copied there and no
/// kernel can have overwritten: small copies are remembered until the next launch, so that copying them straight back tells
/// the truth. Any thread.

/// `bytes` of host memory were copied to device memory.
void remember_bytes(void const* device, void const* host, std::size_t bytes);
/// Device memory was overwritten by something unknown.
void forget_bytes(void const* device, std::size_t bytes);
/// A kernel was launched: it may have written anywhere.
void forget_all_bytes() noexcept;
/// Device to host: what is known, else zeros.
void read_bytes(void* host, void const* device, std::size_t bytes);
/// Device to device: what was known of the source is then known of the destination.
void move_known_bytes(void* destination, void const* source, std::size_t bytes);

}  // namespace maxbatch::dry
