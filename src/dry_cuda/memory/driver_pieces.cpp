#include "driver_pieces.hpp"

namespace maxbatch::dry {
namespace {

constexpr std::int64_t kKib = 1024;
constexpr std::int64_t kMib = 1024 * kKib;
constexpr std::int64_t kSlab = 2 * kMib;

// Note [Code on the card]
// Code is loaded function by function when it is first launched, into slabs of 2 MiB: the first one at the first kernel,
// exactly. When the next is full hangs on the machine code's sizes, which only LibTorch's wheel tells: the kernels that 19
// programs launched average 14 to 16 KiB. Of the libraries' kernels not even the names are known here, so theirs are the
// sizes at which the second and third slab come when they came on the H200: within a few kernels, not exactly.
constexpr std::int64_t kKernelCode = 15 * kKib;
constexpr std::int64_t kProductCode = 420 * kKib;
constexpr std::int64_t kLtProductCode = 1000 * kKib;
constexpr std::int64_t kBatchNormCode = 300 * kKib;
/// By how many there were before: later ones share kernels with earlier ones.
constexpr std::int64_t convolution_code(std::size_t before) {
  return before == 0 ? 1000 * kKib : before <= 3 ? 200 * kKib : 30 * kKib;
}

constexpr std::int64_t kTrapMessages = 8 * kMib + 260 * kKib;  // what is printed on the card, on its way to the host
constexpr int kCudnnStreams = 4;

/// From the slab in use, of which `free` is left, or from a new one.
void take_from_slab(std::int64_t& free, std::int64_t bytes, DriverPieces::Kind kind, DriverPieces::Pieces& pieces) {
  if (free < bytes) {
    pieces.push_back({kind, kSlab});
    free = kSlab;
  }
  free -= bytes;
}

}  // namespace

void DriverPieces::take_code(Pieces& pieces, std::int64_t bytes) {
  take_from_slab(free_for_code_, bytes, Kind::device, pieces);
}

/// Once in a process, by whichever handle comes first.
void DriverPieces::take_first_of_libraries(Pieces& pieces) {
  if (a_library_started_) { return; }
  a_library_started_ = true;
  pieces.push_back({Kind::device, kSlab});
}

/// Small pinned blocks share slabs, too; they are not followed when they are freed.
void DriverPieces::take_small_pinned(Pieces& pieces, std::int64_t bytes) {
  take_from_slab(free_pinned_, bytes, Kind::host, pieces);
}

void DriverPieces::grow_local_memory(Pieces& pieces) {
  if (local_memory_grown_) { return; }
  local_memory_grown_ = true;
  pieces.push_back({Kind::grow_local_memory, 0});
  pieces.push_back({Kind::host, kSlab});
}

DriverPieces::Pieces DriverPieces::kernel_loaded(KernelCode code) {
  Pieces pieces;
  take_code(pieces, kKernelCode);
  if (code.module_asserts) { grow_local_memory(pieces); }
  if (code.asserts && !traps_prepared_) {
    traps_prepared_ = true;
    pieces.push_back({Kind::host, kTrapMessages});
  }
  return pieces;
}

DriverPieces::Pieces DriverPieces::library_kernel_loaded(LibraryCode code) {
  Pieces pieces;
  if (!library_kernels_.emplace(code.function, code.variant).second) { return pieces; }
  if (code.function == "cudnnBackendExecute") {
    take_code(pieces, convolution_code(convolutions_++));
  } else if (code.function == "cublasLtMatmul") {
    take_code(pieces, kLtProductCode);
  } else {
    take_code(pieces, code.function.substr(0, 5) == "cudnn" ? kBatchNormCode : kProductCode);
  }
  return pieces;
}

DriverPieces::Pieces DriverPieces::unknown_kernel_loaded() {
  Pieces pieces;
  grow_local_memory(pieces);
  return pieces;
}

DriverPieces::Pieces DriverPieces::cublas_handle_created(std::int64_t bytes) {
  Pieces pieces;
  take_first_of_libraries(pieces);
  pieces.push_back({Kind::device, bytes});
  return pieces;
}

DriverPieces::Pieces DriverPieces::cudnn_handle_created() {
  Pieces pieces;
  take_first_of_libraries(pieces);
  for (int stream = 0; stream < kCudnnStreams; ++stream) { pieces.push_back({Kind::device, kSlab}); }
  take_small_pinned(pieces, kKib);
  return pieces;
}

DriverPieces::Pieces DriverPieces::pinned_memory_taken(std::int64_t bytes) {
  Pieces pieces;
  if (bytes < kSlab) {
    take_small_pinned(pieces, bytes);
  } else {
    pieces.push_back({Kind::host, bytes});
  }
  return pieces;
}

}  // namespace maxbatch::dry
