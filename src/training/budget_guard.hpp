#pragma once

#include <maxbatch/device/memory_device.hpp>

#include <optional>

namespace maxbatch::detail {

/// Puts a device under another budget, and back; nothing counts as resident afterwards.
class BudgetGuard {
 public:
  BudgetGuard(MemoryDevice& device, std::optional<Bytes> budget) : device_(device), before_(device.describe().budget) {
    device_.set_budget(budget);
  }
  ~BudgetGuard() {
    try {
      device_.set_budget(before_);
      device_.set_resident(Bytes{0});
    } catch (...) {  // NOLINT(bugprone-empty-catch): both values were accepted before
    }
  }
  BudgetGuard(BudgetGuard const&) = delete;
  BudgetGuard& operator=(BudgetGuard const&) = delete;

 private:
  MemoryDevice& device_;
  std::optional<Bytes> before_;
};

}  // namespace maxbatch::detail
