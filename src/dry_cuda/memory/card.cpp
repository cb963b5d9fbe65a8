#include "card.hpp"

#include "access_fault.hpp"
#include "driver_events.hpp"
#include "dry_cuda/activation/environment.hpp"
#include "dry_cuda/activation/loaded_libraries.hpp"
#include "dry_cuda/card_profile.hpp"
#include "dry_cuda/report/report_page.hpp"
#include "dry_cuda/runtime/current_device.hpp"
#include "dry_cuda/runtime/kernel_registry.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>

namespace maxbatch::dry {
namespace {

constexpr std::int64_t kMib = std::int64_t{1} << 20;
constexpr std::uint64_t kTib = std::uint64_t{1} << 40;

// Note [Device addresses]
// Far below where Linux puts programs, libraries and stacks, and above what the address sanitizer takes for itself: 15 TiB
// for reservations of virtual memory management, then 4 TiB for each card, the first one on top. Reserved at once without
// access: a host access faults, and nobody else's memory ever gets such an address.
constexpr Address kVirtualBegin = 17 * kTib;
constexpr Address kCardsBegin = 32 * kTib;
constexpr std::uint64_t kCardSpan = 4 * kTib;
constexpr Address kCardsEnd = kCardsBegin + kCardSpan * kMostDevices;
static_assert(kMostDevices == ProcessRecord::kDevices, "a record for each card");

AddressRange addresses_of(int device) {
  auto const end = kCardsEnd - kCardSpan * static_cast<std::uint64_t>(device);
  return {end - kCardSpan, end};
}

std::int64_t granules(std::int64_t bytes) {
  constexpr auto kGranule = static_cast<std::int64_t>(DriverAddressSpace::kGranule);
  return (bytes + kGranule - 1) / kGranule * kGranule;
}

std::array<std::atomic<Card*>, kMostDevices> cards{};  // never destroyed: calls come until the very end of the process

}  // namespace

bool is_device_address(void const* pointer) noexcept {
  auto const address = reinterpret_cast<Address>(pointer);
  return address >= kVirtualBegin && address < kCardsEnd;
}

int card_of_address(void const* pointer) noexcept {
  auto const address = reinterpret_cast<Address>(pointer);
  if (address < kCardsBegin || address >= kCardsEnd) { return -1; }
  return static_cast<int>((kCardsEnd - 1 - address) / kCardSpan);
}

AddressRange virtual_addresses() noexcept { return {kVirtualBegin, kCardsBegin}; }

void reserve_device_addresses() {
  static bool const reserved = [] {
    auto* const wanted =
        reinterpret_cast<void*>(kVirtualBegin);  // NOLINT(performance-no-int-to-ptr): an address, no object
    auto* const got = mmap(wanted, kCardsEnd - kVirtualBegin, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != wanted) {
      end_with_sentence(std::string("the addresses for device memory cannot be reserved (") + std::strerror(errno) +
                        "); is there a limit on virtual memory (ulimit -v)?");
    }
    explain_access_faults();
    return true;
  }();
  static_cast<void>(reserved);
}

Card& Card::at(int device) {
  auto& slot = cards.at(static_cast<std::size_t>(device));
  if (auto* const card = slot.load(std::memory_order_acquire)) { return *card; }
  static std::mutex making;
  std::lock_guard<std::mutex> const lock(making);
  if (slot.load() == nullptr) {
    reserve_device_addresses();
    slot.store(new Card(device), std::memory_order_release);
  }
  return *slot.load();
}

Card& Card::current() { return at(current_device()); }

bool Card::any() noexcept {
  return std::any_of(cards.begin(), cards.end(), [](auto const& card) { return card.load() != nullptr; });
}

bool Card::exists(int device) noexcept { return cards.at(static_cast<std::size_t>(device)).load() != nullptr; }

Card::Card(int device)
    : space_(addresses_of(device), environment().seed),
      record_(process_record().device.at(static_cast<std::size_t>(device))) {
  auto const& profile = card_profile();
  record_.total_bytes = profile.total_bytes;
  // The context: docs/address_space.md, section 2. One full reservation, one with 24 MiB left, and local memory.
  static_cast<void>(allocate_for_driver(32 * kMib));
  static_cast<void>(allocate_for_driver(70 * kMib));
  static_cast<void>(allocate_for_driver(2 * kMib));
  local_memory_ = allocate_for_driver(profile.local_memory_bytes);
  // What a measured context takes beyond that lies where segments never go.
  grow_context(std::max<std::int64_t>(0, profile.context_bytes - record_.context_bytes));
  space_.begin_set_up();
  look_at_loaded_libraries();
}

void Card::grow_context(std::int64_t bytes) {
  record_.context_bytes += bytes;
  record_.peak_context_bytes = std::max(record_.peak_context_bytes, record_.context_bytes);
  record_.peak_device_bytes = std::max(record_.peak_device_bytes, record_.context_bytes + record_.program_bytes);
}

std::optional<Address> Card::allocate_for_driver(std::int64_t bytes) {
  auto const size = granules(bytes);
  if (record_.context_bytes + record_.program_bytes + size > record_.total_bytes) { return std::nullopt; }
  auto const address = space_.allocate(static_cast<std::uint64_t>(size));
  if (address) { grow_context(size); }
  return address;
}

bool Card::admit(std::int64_t bytes) {
  auto const free_on_card = record_.total_bytes - record_.context_bytes - record_.program_bytes;
  auto const budget = environment().budget_bytes;
  auto const free = budget ? std::min(free_on_card, *budget - record_.program_bytes) : free_on_card;
  if (bytes <= free) { return true; }
  record_.last_refused = {bytes, record_.program_bytes, std::max<std::int64_t>(0, free)};
  if (record_.refusals++ == 0) { record_.first_refused = record_.last_refused; }
  return false;
}

void Card::hold(std::int64_t bytes) {
  record_.program_bytes += bytes;
  ++record_.segments;
  ++record_.segments_bought;
  record_.peak_segments = std::max(record_.peak_segments, record_.segments);
  record_.peak_program_bytes = std::max(record_.peak_program_bytes, record_.program_bytes);
  record_.peak_device_bytes = std::max(record_.peak_device_bytes, record_.context_bytes + record_.program_bytes);
}

void Card::let_go(std::int64_t bytes) {
  record_.program_bytes -= bytes;
  --record_.segments;
}

std::optional<Address> Card::allocate(std::int64_t bytes) {
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const size = bytes < record_.total_bytes ? granules(bytes) : bytes;  // a size near the type's end would wrap
  if (!admit(size)) { return std::nullopt; }
  auto const address = space_.allocate(static_cast<std::uint64_t>(size));
  if (address) { hold(size); }
  return address;
}

bool Card::release(Address address) {
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const size = space_.size_of(address);
  if (!size || !space_.release(address)) { return false; }
  let_go(static_cast<std::int64_t>(*size));
  return true;
}

std::optional<AddressRange> Card::allocation_around(Address address) {
  std::lock_guard<std::mutex> const lock(mutex_);
  return space_.allocation_around(address);
}

bool Card::take(std::int64_t bytes) {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (!admit(bytes)) { return false; }
  hold(bytes);
  return true;
}

void Card::give_back(std::int64_t bytes) {
  std::lock_guard<std::mutex> const lock(mutex_);
  let_go(bytes);
}

MemoryInfo Card::memory_info() {
  std::lock_guard<std::mutex> const lock(mutex_);
  auto free = record_.total_bytes - record_.context_bytes - record_.program_bytes;
  if (auto const budget = environment().budget_bytes) { free = std::min(free, *budget - record_.program_bytes); }
  return {std::max<std::int64_t>(0, free), record_.total_bytes};
}

void Card::count_launch() noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  ++record_.launches;
}

void Card::take(DriverPieces::Pieces const& pieces) {
  for (auto const& piece : pieces) {
    switch (piece.kind) {
      case DriverPieces::Kind::device: static_cast<void>(allocate_for_driver(piece.bytes)); break;
      case DriverPieces::Kind::host: static_cast<void>(space_.allocate(static_cast<std::uint64_t>(piece.bytes))); break;
      case DriverPieces::Kind::grow_local_memory: grow_local_memory(); break;
    }
  }
}

void Card::grow_local_memory() {
  auto const& profile = card_profile();
  space_.settle();
  if (local_memory_ && space_.release(*local_memory_)) { grow_context(-granules(profile.local_memory_bytes)); }
  local_memory_ = allocate_for_driver(profile.grown_local_memory_bytes);
}

void Card::note_kernel_loaded(KernelCode code) {
  std::lock_guard<std::mutex> const lock(mutex_);
  take(driver_pieces_.kernel_loaded(code));
}

void Card::note_library_kernel(LibraryCode code) {
  std::lock_guard<std::mutex> const lock(mutex_);
  take(driver_pieces_.library_kernel_loaded(code));
  if (!asserting_kernels_are_known()) { take(driver_pieces_.unknown_kernel_loaded()); }
}

void Card::note_cublas_handle() {
  std::lock_guard<std::mutex> const lock(mutex_);
  // The second handle is autograd's thread's, which has also got a malloc arena of its own by then.
  if (cublas_handles_++ > 0) { space_.map_thread_arena(); }
  take(driver_pieces_.cublas_handle_created(card_profile().cublas_handle_bytes));
}

void Card::note_cudnn_handle() {
  std::lock_guard<std::mutex> const lock(mutex_);
  take(driver_pieces_.cudnn_handle_created());
}

void Card::note_pinned_memory(std::int64_t bytes) {
  std::lock_guard<std::mutex> const lock(mutex_);
  take(driver_pieces_.pinned_memory_taken(bytes));
}

bool Card::open_communicator() {
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const& profile = card_profile();
  auto const bytes = profile.nccl_communicator_bytes + (nccl_modules_loaded_ ? 0 : profile.nccl_modules_bytes);
  if (record_.context_bytes + record_.program_bytes + bytes > record_.total_bytes) { return false; }
  nccl_modules_loaded_ = true;
  grow_context(bytes);
  return true;
}

void Card::close_communicator() {
  std::lock_guard<std::mutex> const lock(mutex_);
  grow_context(-card_profile().nccl_communicator_bytes);
}

void note_library_kernel(LibraryCode code) { Card::current().note_library_kernel(code); }
void note_cublas_handle() { Card::current().note_cublas_handle(); }
void note_cudnn_handle() { Card::current().note_cudnn_handle(); }

}  // namespace maxbatch::dry
