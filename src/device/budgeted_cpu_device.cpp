#include "budgeted_cpu_allocator.hpp"
#include "cpu_warm_up.hpp"
#include "host_memory.hpp"
#include "layout_teller.hpp"
#include "memory_ledger.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/search/errors.hpp>

#include <stdexcept>
#include <string>
#include <utility>

namespace maxbatch {
namespace {

using detail::MemoryAccount;
using detail::MemoryLedger;
using detail::WindowId;

class CpuTrialWindow final : public TrialWindow, public detail::LayoutTeller {
 public:
  CpuTrialWindow(MemoryLedger& ledger, MemoryAccount& account, MemoryAccount::Terms const& terms)
      : ledger_(ledger), account_(account), id_(ledger.open_window(account, terms)) {}
  ~CpuTrialWindow() override {
    CpuTrialWindow::disarm();
    account_.forget_window(id_);
  }
  CpuTrialWindow(CpuTrialWindow const&) = delete;
  CpuTrialWindow& operator=(CpuTrialWindow const&) = delete;

  Phase enter_phase(Phase phase) noexcept override { return account_.enter_phase(id_, phase); }

  TrialEvidence evidence() const override { return account_.tally(id_).value_or(final_).evidence(); }

  void disarm() noexcept override {
    if (auto const tally = ledger_.close_window(account_, id_)) { final_ = *tally; }
  }

  Bytes still_allocated() const noexcept override { return account_.live_of_window(id_); }

  std::uint64_t layout_fingerprint() const override { return account_.layout_fingerprint(); }

 private:
  MemoryLedger& ledger_;
  MemoryAccount& account_;
  WindowId const id_;
  detail::WindowTally final_;
};

void require_positive(std::optional<Bytes> budget) {
  if (budget && budget->count <= 0) {
    throw InvalidArgument("A budget must be more than zero bytes, and this is " + std::to_string(budget->count) +
                          ". For no budget of its own (the machine's memory) give none.");
  }
}

class BudgetedCpuDeviceOfIndex final : public BudgetedCpuDevice {
 public:
  BudgetedCpuDeviceOfIndex(std::optional<Bytes> budget, c10::DeviceIndex index)
      : allocator_(detail::BudgetedCpuAllocator::installed()),
        account_(allocator_.ledger().account(index)),
        total_(detail::host_memory()),
        budget_(budget) {}

  DeviceDescription describe() const override {
    DeviceDescription description;
    description.name = std::string(budget_ ? "cpu under a budget" : "cpu") +
                       (caching_ ? ", as a caching allocator would spend it" : "");
    description.torch_device = torch_device();
    description.total = total_;
    description.budget = budget_;
    description.allocator_settings =
        caching_ ? "a simulated caching allocator; settings: '" + to_string(*caching_) + "'"
                 : "sizes rounded up to " + std::to_string(detail::kRoundingBytes) + " bytes, no caching";
    description.evidence = DeviceEvidence::cpu;
    return description;
  }

  c10::Device torch_device() const override { return c10::Device(c10::kCPU); }

  void set_budget(std::optional<Bytes> budget) override {
    require_positive(budget);
    refuse_during_trial("its budget");
    budget_ = budget;
  }

  void set_resident(Bytes already_allocated) override {
    if (already_allocated.count < 0) {
      throw InvalidArgument("Resident bytes cannot be negative, and these are " +
                            std::to_string(already_allocated.count) + ".");
    }
    refuse_during_trial("its resident bytes");
    resident_ = already_allocated;
  }

  void fail_allocation(std::int64_t k) override {
    if (k < 0) {
      throw InvalidArgument("Allocations are numbered from 1 (0: none is to fail), and this is " + std::to_string(k) +
                            ".");
    }
    refuse_during_trial("the allocation to fail");
    fail_allocation_ = k;
  }

  void account_with(std::optional<AllocatorSettings> caching) override {
    refuse_during_trial("how it accounts");
    account_.account_with(caching ? std::make_unique<detail::SimulatedCache>(*caching) : nullptr);
    caching_ = caching;
  }

  void warm_up() override {
    allocator_.ledger().belong_to(account_);  // not to whatever trial is open on another index
    detail::warm_up_cpu();
  }

  std::unique_ptr<TrialWindow> open_trial() override {
    if (!allocator_.is_reached()) {
      throw std::logic_error(
          "LibTorch's CPU allocator was replaced after the first budgeted cpu device was made, so a budget would mean "
          "nothing. Install the other allocator before that, and maxbatch will stand in front of it.");
    }
    auto window = std::make_unique<CpuTrialWindow>(
        allocator_.ledger(), account_, MemoryAccount::Terms{budget_.value_or(total_), resident_, fail_allocation_});
    fail_allocation_ = 0;
    return window;
  }

  void synchronize() override {}  // CPU operators have ended when they return
  void release_cached_memory() noexcept override { account_.flush(); }
  bool is_alive() noexcept override { return true; }

 private:
  void refuse_during_trial(char const* what) const {
    if (account_.open_window_id() != detail::kNoWindow) {
      throw std::logic_error("A trial is open on budgeted cpu device " + std::to_string(account_.index()) + ": set " +
                             what + " before it is opened or after it has ended.");
    }
  }

  detail::BudgetedCpuAllocator& allocator_;
  MemoryAccount& account_;
  Bytes const total_;
  std::optional<Bytes> budget_;
  Bytes resident_;
  std::int64_t fail_allocation_ = 0;
  std::optional<AllocatorSettings> caching_;
};

}  // namespace

std::shared_ptr<BudgetedCpuDevice> budgeted_cpu_device(std::optional<Bytes> budget, c10::DeviceIndex index) {
  require_positive(budget);
  if (index < 0) {
    throw InvalidArgument("The index of a budgeted cpu device is 0 or more, and this is " + std::to_string(index) +
                          ".");
  }
  return std::make_shared<BudgetedCpuDeviceOfIndex>(budget, index);
}

}  // namespace maxbatch
