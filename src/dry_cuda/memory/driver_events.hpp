#pragma once

namespace maxbatch::dry {

/// What the libraries above the runtime make the driver do to device memory. See docs/address_space.md, section 2. All act on
/// the calling thread's current device; any thread.

/// The first kernel of cuBLAS, cuBLASLt or cuDNN needs larger stacks: local memory moves. Cheap once it has happened, so it
/// is called on every GEMM and every cuDNN execution.
void note_library_kernel();

/// cublasCreate takes 64 MiB from the driver.
void note_cublas_handle();

}  // namespace maxbatch::dry
