#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace maxbatch::dry {

/// A card as a program sees it through CUDA: what the answers of the runtime, the driver and the libraries are made of.
/// Defaults are what every card since Turing shares, and otherwise the H200's.
struct CardProfile {
  std::string name = "NVIDIA H200";
  int major = 9;
  int minor = 0;
  int multiprocessors = 132;
  int threads_per_multiprocessor = 2048;
  int blocks_per_multiprocessor = 32;
  int registers_per_multiprocessor = 65536;
  std::int64_t shared_bytes_per_multiprocessor = 233472;
  std::int64_t shared_bytes_per_block_optin = 232448;
  std::int64_t l2_bytes = 62914560;
  int memory_bus_bits = 6016;
  int clock_khz = 1980000;
  int memory_clock_khz = 3201000;
  bool ecc = true;

  /// As cudaMemGetInfo and cudaDeviceProp::totalGlobalMem say it.
  std::int64_t total_bytes = 150109880320;

  // What the driver takes for itself: docs/address_space.md, section 2. Local memory holds the stacks of every thread that
  // can be resident, so for a card that nobody measured it is scaled from the H200's by the count of resident threads.
  std::int64_t context_bytes = 0;  ///< in all, when the process has a context; 0: what the pieces below add up to
  std::int64_t local_memory_bytes = 0;
  std::int64_t grown_local_memory_bytes = 0;  ///< after the first library kernel
  std::int64_t cublas_handle_bytes = std::int64_t{64} << 20;
  // NCCL 2.28.9 on an H200, one rank: its kernels' modules with the first communicator, and each communicator until it is
  // destroyed. With more ranks, which have buffers for their peers, it may be more.
  std::int64_t nccl_modules_bytes = std::int64_t{170} << 20;
  std::int64_t nccl_communicator_bytes = std::int64_t{388} << 20;
};

/// The card of this process: the file MAXBATCH_CARD_PROFILE, else the catalogue's card of the name MAXBATCH_CARD. Read once.
/// What cannot be read ends the process with one sentence: there is no card without it.
CardProfile const& card_profile();

/// Reads `key = value` lines, a key for each field above by its name; `#` begins a comment. What is not named keeps its
/// default.
/// Throws: std::runtime_error with the offending line.
CardProfile read_card_profile(std::string const& path);
/// The same from anywhere; `called` stands for the file in complaints.
CardProfile read_card_profile(std::istream& lines, std::string const& called);

/// The lines that read_card_profile reads the same card from.
std::string card_profile_text(CardProfile const& card);

/// The H200's local memory at start, scaled by the count of threads that can be resident: for cards that nobody measured.
std::int64_t scaled_local_memory_bytes(CardProfile const& card);

/// Throws: UnknownCard.
CardProfile catalogued_card_profile(std::string const& name);

}  // namespace maxbatch::dry
