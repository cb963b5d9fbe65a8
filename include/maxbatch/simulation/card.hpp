#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// How a figure is known: measured by us, read in what others published, or derived from other figures by a stated rule.
enum class FigureEvidence { measured, published, estimated };
std::string_view to_string(FigureEvidence evidence);

struct FigureSource {
  FigureEvidence evidence = FigureEvidence::estimated;
  std::string_view text;  // an address, a quoted output, or the rule
};

struct ComputeCapability {
  int major = 0;
  int minor = 0;

  friend constexpr bool operator==(ComputeCapability a, ComputeCapability b) {
    return a.major == b.major && a.minor == b.minor;
  }
  friend constexpr bool operator!=(ComputeCapability a, ComputeCapability b) { return !(a == b); }
  friend constexpr bool operator<(ComputeCapability a, ComputeCapability b) {
    return a.major != b.major ? a.major < b.major : a.minor < b.minor;
  }
};
/// "8.9"
std::string to_string(ComputeCapability capability);

/// What follows from the compute capability alone.
struct CardArchitecture {
  ComputeCapability capability;
  std::string_view name;  // "Ada Lovelace"
  int max_threads_per_multiprocessor = 0;
  int max_blocks_per_multiprocessor = 0;
  Bytes shared_memory_per_multiprocessor;
  Bytes shared_memory_per_block_optin;
  Bytes reserved_shared_memory_per_block;
  FigureSource source;

  // The same from 6.0 to 12.0.
  int warp_size = 32;
  int max_threads_per_block = 1024;
  int registers_per_block = 65536;
  int registers_per_multiprocessor = 65536;
  Bytes shared_memory_per_block = Bytes{48 << 10};
};

/// What the driver takes from the card for one process.
struct CardContext {
  Bytes fixed;               // the driver's own, whatever the program does
  Bytes local_memory;        // the stacks of all threads that can be resident
  Bytes grown_local_memory;  // what takes its place at the first convolution or matrix product
  FigureSource source;

  Bytes at_start() const { return fixed + local_memory; }
  Bytes when_training() const { return fixed + grown_local_memory; }
};

struct CardFigure {
  std::string_view name;  // "total_memory_bytes"
  std::int64_t value = 0;
  FigureSource source;
};

struct Card {
  std::string_view name;         // "rtx-2080-ti": what one types
  std::string_view aliases;      // more of that, with spaces between them
  std::string_view device_name;  // "NVIDIA GeForce RTX 2080 Ti": as CUDA reports it; not unique
  CardArchitecture architecture;
  int multiprocessors = 0;
  Bytes l2_cache;
  int memory_bus_bits = 0;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  bool ecc = false;              // whether total_memory is that of a card with ECC on
  FigureSource hardware_source;  // of the six above
  Bytes marketed_memory;         // what the box says, in binary units
  Bytes total_memory;            // totalGlobalMem, on Linux; differs by up to 3 % with the driver: docs/cards.md
  FigureSource total_memory_source;
  CardContext context;

  /// Every number above by its name, each with its source.
  std::vector<CardFigure> figures() const;
};

/// `card` as `key = value` lines, which the dry card reads (MAXBATCH_CARD_PROFILE).
std::string card_profile_text(Card const& card);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/card_inl.hpp>
#endif
