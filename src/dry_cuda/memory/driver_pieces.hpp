#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace maxbatch::dry {

/// What a kernel of the program's makes the driver load. A kernel asserts when it can end in a trap that says where
/// (CUDA_KERNEL_ASSERT): it calls code of the driver's, of which nobody knows how deep its stack is.
struct KernelCode {
  bool asserts = false;         ///< the kernel itself
  bool module_asserts = false;  ///< one of the kernels that were compiled with it, or itself
};

/// A library's kernel, as far as it can be told from the call: which function, and which variant of it.
struct LibraryCode {
  std::string_view function;
  std::uint64_t variant = 0;
};

/// What the driver takes for itself while a program runs, in the order in which it takes it. Read off 19 training programs on an
/// H200 (driver 580.159.04): docs/address_space.md of the recordings tells where it lies, docs/dry_card_verification.md how well
/// this holds. A value without memory of its own: whoever asks takes the pieces.
/// Threads: not thread-safe.
class DriverPieces {
 public:
  enum class Kind {
    device,             ///< memory of the card
    host,               ///< pinned memory of the host: an address among the card's, and none of its memory
    grow_local_memory,  ///< local memory moves, at its grown size
  };
  struct Piece {
    Kind kind = Kind::device;
    std::int64_t bytes = 0;  ///< not of local memory, whose sizes the card's profile has
  };
  using Pieces = std::vector<Piece>;

  /// A kernel was launched for the first time.
  Pieces kernel_loaded(KernelCode code);
  /// A matrix product or convolution of a library's; what the same function and variant took before takes nothing.
  Pieces library_kernel_loaded(LibraryCode code);
  /// For programs of whose kernels nobody knows which ones assert: the first product or convolution moves local memory.
  Pieces unknown_kernel_loaded();
  Pieces cublas_handle_created(std::int64_t bytes);
  Pieces cudnn_handle_created();
  Pieces pinned_memory_taken(std::int64_t bytes);

 private:
  void take_code(Pieces& pieces, std::int64_t bytes);
  void take_small_pinned(Pieces& pieces, std::int64_t bytes);
  void take_first_of_libraries(Pieces& pieces);
  void grow_local_memory(Pieces& pieces);

  std::int64_t free_for_code_ = 0;
  bool local_memory_grown_ = false;
  bool traps_prepared_ = false;
  bool a_library_started_ = false;
  std::size_t convolutions_ = 0;
  std::int64_t free_pinned_ = 0;
  std::set<std::pair<std::string_view, std::uint64_t>> library_kernels_;  // functions' names are constants
};

}  // namespace maxbatch::dry
