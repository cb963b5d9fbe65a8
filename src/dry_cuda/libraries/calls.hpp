#pragma once

#include "dry_cuda/memory/driver_events.hpp"
#include "dry_cuda/memory/known_bytes.hpp"
#include "dry_cuda/report/call_notes.hpp"

namespace maxbatch::dry {

/// A library's kernel was launched: it may have written anywhere on the card. Any thread.
inline void note_kernel() { forget_all_bytes(); }

/// A matrix product or convolution: the driver loads its code besides. Any thread.
inline void note_large_kernel(LibraryCode code) {
  note_library_kernel(code);
  forget_all_bytes();
}

}  // namespace maxbatch::dry
