#pragma once

#include "layout_teller.hpp"
#include "memory_fraction_guard.hpp"
#include "trial_ledger.hpp"
#include <maxbatch/device/memory_device.hpp>

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace maxbatch::detail {

/// One trial on one CUDA device: listens from construction to destruction; budget, peaks and phases end with `disarm`.
class CudaTrialWindow final : public TrialWindow, public LayoutTeller {
 public:
  /// `peaks_are_exact` is cleared when what was followed differs from the allocator's statistics.
  /// Throws: std::logic_error if a trial is open on the index.
  CudaTrialWindow(c10::DeviceIndex index, std::optional<Bytes> budget, bool& peaks_are_exact);
  ~CudaTrialWindow() override;
  CudaTrialWindow(CudaTrialWindow const&) = delete;
  CudaTrialWindow& operator=(CudaTrialWindow const&) = delete;

  Phase enter_phase(Phase phase) noexcept override;
  void begin_step(std::int64_t number) noexcept override;
  void end_step(std::int64_t number) noexcept override;
  TrialEvidence evidence() const override;
  void disarm() noexcept override;
  Bytes still_allocated() const noexcept override { return ledger_.still_allocated(); }
  std::uint64_t layout_fingerprint() const override;

 private:
  TrialEvidence read() const;

  c10::DeviceIndex index_;
  bool& peaks_are_exact_;
  mutable TrialLedger ledger_;
  std::int64_t retries_before_ = 0;
  std::optional<MemoryFractionGuard> budget_;
  std::optional<TrialEvidence> final_;
};

}  // namespace maxbatch::detail
