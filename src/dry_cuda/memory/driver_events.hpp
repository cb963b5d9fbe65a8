#pragma once

#include "driver_pieces.hpp"

namespace maxbatch::dry {

/// What the libraries above the runtime make the driver do to device memory. See driver_pieces.hpp. All act on
/// the calling thread's current device; any thread.

/// A matrix product or convolution ran. Cheap once it has; so it is called on every one.
void note_library_kernel(LibraryCode code);

/// cublasCreate and cudnnCreate take memory from the driver.
void note_cublas_handle();
void note_cudnn_handle();

}  // namespace maxbatch::dry
