#pragma once

#include "address.hpp"
#include "driver_pieces.hpp"
#include <maxbatch/simulation/driver_address_space.hpp>

#include <cstdint>
#include <mutex>
#include <optional>

namespace maxbatch::dry {

struct DeviceRecord;

struct MemoryInfo {
  std::int64_t free_bytes = 0;
  std::int64_t total_bytes = 0;
};

/// The memory of one dry card: who holds how much of it, and at which addresses. Behind the addresses is nothing, and the
/// host faults on them. Made at first use, with its context.
/// Threads: thread-safe.
class Card {
 public:
  /// Of the calling thread's current device, and by index.
  static Card& current();
  static Card& at(int device);
  /// Whether any thread has made a card yet.
  static bool any() noexcept;
  static bool exists(int device) noexcept;

  explicit Card(int device);
  ~Card() = default;
  Card(Card const&) = delete;
  Card& operator=(Card const&) = delete;

  /// What cudaMalloc does: nothing when the card, or the budget, has no room.
  std::optional<Address> allocate(std::int64_t bytes);
  /// False when no allocation begins there.
  bool release(Address address);
  std::optional<AddressRange> allocation_around(Address address);

  /// What cuMemCreate does: memory without an address.
  bool take(std::int64_t bytes);
  void give_back(std::int64_t bytes);

  MemoryInfo memory_info();
  void count_launch() noexcept;

  /// A kernel of the program's ran for the first time on this card.
  void note_kernel_loaded(KernelCode code);
  void note_library_kernel(LibraryCode code);
  void note_cublas_handle();
  void note_cudnn_handle();
  void note_pinned_memory(std::int64_t bytes);
  /// What a communicator of NCCL's takes, beside the segments' addresses. False when the card has no room for it.
  bool open_communicator();
  void close_communicator();

 private:
  bool admit(std::int64_t bytes);
  void hold(std::int64_t bytes);
  void let_go(std::int64_t bytes);
  /// For the driver itself, which no budget limits; it does without where the card is full.
  std::optional<Address> allocate_for_driver(std::int64_t bytes);
  void grow_context(std::int64_t bytes);
  void take(DriverPieces::Pieces const& pieces);
  void grow_local_memory();

  std::mutex mutex_;
  DriverAddressSpace space_;
  DeviceRecord& record_;
  std::optional<Address> local_memory_;
  DriverPieces driver_pieces_;
  int cublas_handles_ = 0;
  bool nccl_modules_loaded_ = false;
};

/// The addresses that stand for device memory of any kind; nothing else of the process lies there.
bool is_device_address(void const* pointer) noexcept;
/// The card to whose own memory (not virtual memory management's) the address belongs, or -1.
int card_of_address(void const* pointer) noexcept;
/// Where cuMemAddressReserve finds its ranges.
AddressRange virtual_addresses() noexcept;
/// Reserves all of them from the host; the first card does.
void reserve_device_addresses();

}  // namespace maxbatch::dry
