#include "budgeted_cpu_allocator.hpp"

#include "refusal_text.hpp"
#include "single_copy.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <variant>

namespace maxbatch::detail {
namespace {

/// A deleter is a plain function, so what that of raw memory needs is global: set once, before the first allocation that
/// carries it, and never destroyed.
std::atomic<c10::DeleterFnPtr> deleter_of_upstream{nullptr};
std::atomic<MemoryLedger*> ledger_of_raw_memory{nullptr};

void end_charge(MemoryLedger& ledger, void const* key) noexcept {
  if (ledger.has_charges()) { ledger.release(key); }
}

void delete_raw(void* memory) {
  end_charge(*ledger_of_raw_memory.load(std::memory_order_acquire), memory);
  deleter_of_upstream.load(std::memory_order_acquire)(memory);
}

struct Wrapped {
  MemoryLedger& ledger;
  c10::DataPtr memory;
};

void delete_wrapped(void* context) {
  auto* const wrapped = static_cast<Wrapped*>(context);
  end_charge(wrapped->ledger, context);
  delete wrapped;
}

/// Set on the thread that asks whether LibTorch still comes to us, until it does.
thread_local bool is_probing = false;

/// Ends a reservation on every way out that is not a charge.
class ReservationGuard {
 public:
  ReservationGuard(MemoryAccount& account, Reservation const& reservation)
      : account_(account), reservation_(reservation) {}
  ~ReservationGuard() {
    if (!kept_) { account_.cancel(reservation_); }
  }
  ReservationGuard(ReservationGuard const&) = delete;
  ReservationGuard& operator=(ReservationGuard const&) = delete;

  void keep() noexcept { kept_ = true; }

 private:
  MemoryAccount& account_;
  Reservation const& reservation_;
  bool kept_ = false;
};

[[noreturn]] void throw_out_of_memory(Refusal const& refusal, std::size_t size_bytes) {
  c10::profiledCPUMemoryReporter().OutOfMemory(size_bytes);  // profilers see it, as they see the upstream's
  C10_THROW_ERROR(OutOfMemoryError, refusal_text(refusal));
}

/// There is no way to ask for the priority of what is installed. The lowest one that is taken leaves the others' order
/// as it was.
void set_cpu_allocator(c10::Allocator& allocator) {
  for (int priority = 0; priority <= std::numeric_limits<std::uint8_t>::max(); ++priority) {
    c10::SetCPUAllocator(&allocator, static_cast<std::uint8_t>(priority));
    if (c10::GetCPUAllocator() == &allocator) { return; }
  }
  throw std::logic_error("LibTorch did not take maxbatch's CPU allocator.");
}

}  // namespace

BudgetedCpuAllocator& BudgetedCpuAllocator::installed() {
  static std::mutex mutex;
  static std::atomic<BudgetedCpuAllocator*> instance{nullptr};
  if (auto* const allocator = instance.load(std::memory_order_acquire)) { return *allocator; }
  std::lock_guard<std::mutex> const lock(mutex);
  if (instance.load(std::memory_order_relaxed) == nullptr) {
    claim_process();
    auto allocator = std::make_unique<BudgetedCpuAllocator>(*c10::GetCPUAllocator(), MemoryLedger::of_process());
    set_cpu_allocator(*allocator);
    instance.store(allocator.release(), std::memory_order_release);
  }
  return *instance.load(std::memory_order_relaxed);
}

BudgetedCpuAllocator::BudgetedCpuAllocator(c10::Allocator& upstream, MemoryLedger& ledger)
    : upstream_(upstream), upstream_deleter_(upstream.raw_deleter()), ledger_(ledger) {
  if (upstream_deleter_ == nullptr) { return; }
  deleter_of_upstream.store(upstream_deleter_, std::memory_order_release);
  ledger_of_raw_memory.store(&ledger_, std::memory_order_release);
}

c10::DataPtr BudgetedCpuAllocator::allocate(std::size_t size_bytes) {
  if (is_probing) {
    is_probing = false;
    return allocate_upstream(size_bytes);
  }
  if (!ledger_.is_armed() || size_bytes == 0) { return allocate_upstream(size_bytes); }
  auto* const account = ledger_.payer(size_bytes);
  if (account == nullptr) { return allocate_upstream(size_bytes); }
  auto const admission = account->reserve(size_bytes);
  if (auto const* const refusal = std::get_if<Refusal>(&admission)) { throw_out_of_memory(*refusal, size_bytes); }
  auto const* const reservation = std::get_if<Reservation>(&admission);
  if (reservation == nullptr) { return allocate_upstream(size_bytes); }  // the trial has just ended

  ReservationGuard guard(*account, *reservation);
  auto memory = charged(allocate_upstream(size_bytes), *account, *reservation);
  guard.keep();
  return memory;
}

c10::DataPtr BudgetedCpuAllocator::allocate_upstream(std::size_t size_bytes) {
  auto memory = upstream_.allocate(size_bytes);
  if (upstream_deleter_ != nullptr) {
    TORCH_CHECK(memory.compare_exchange_deleter(upstream_deleter_, &delete_raw),
                "maxbatch: the CPU allocator that was installed before returned memory with another deleter than its "
                "raw_deleter(), which c10::Allocator forbids");
  }
  return memory;
}

c10::DataPtr BudgetedCpuAllocator::charged(c10::DataPtr memory, MemoryAccount& account,
                                           Reservation const& reservation) {
  if (upstream_deleter_ != nullptr) {
    ledger_.charge(memory.get_context(), account, reservation);
    return memory;
  }
  auto* const data = memory.get();
  auto const device = memory.device();
  auto wrapped = std::make_unique<Wrapped>(Wrapped{ledger_, std::move(memory)});
  ledger_.charge(wrapped.get(), account, reservation);
  return c10::DataPtr(data, wrapped.release(), &delete_wrapped, device);
}

c10::DeleterFnPtr BudgetedCpuAllocator::raw_deleter() const {
  return upstream_deleter_ != nullptr ? &delete_raw : nullptr;
}

bool BudgetedCpuAllocator::is_simple_data_ptr(c10::DataPtr const& data_ptr) const {
  if (data_ptr.get_deleter() == &delete_wrapped) { return false; }
  if (upstream_deleter_ != nullptr) { return c10::Allocator::is_simple_data_ptr(data_ptr); }
  return upstream_.is_simple_data_ptr(data_ptr);
}

void BudgetedCpuAllocator::copy_data(void* destination, void const* source, std::size_t size_bytes) const {
  upstream_.copy_data(destination, source, size_bytes);
}

bool BudgetedCpuAllocator::is_reached() const {
  is_probing = true;
  auto const probe = c10::GetCPUAllocator()->allocate(1);
  return !std::exchange(is_probing, false);
}

}  // namespace maxbatch::detail
