#pragma once

#include "dry_cuda/memory/driver_events.hpp"
#include "dry_cuda/memory/known_bytes.hpp"
#include "dry_cuda/report/call_notes.hpp"

namespace maxbatch::dry {

/// A library's kernel was launched: it may have written anywhere on the card. Any thread.
inline void note_kernel() { forget_all_bytes(); }

/// A matrix product or convolution: also the first of these moves the driver's local memory. Any thread.
inline void note_large_kernel() {
  note_library_kernel();
  forget_all_bytes();
}

}  // namespace maxbatch::dry
