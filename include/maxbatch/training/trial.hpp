#pragma once

#include <maxbatch/device/memory_device.hpp>
#include <maxbatch/search/phase.hpp>

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace maxbatch {

enum class StepMode { train, evaluate };

/// Height and width of an input image in pixels.
struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  friend constexpr bool operator==(ImageSize a, ImageSize b) { return a.height == b.height && a.width == b.width; }
};

/// What a training step is told, and where it says what it does.
class Trial {
 public:
  struct Setting {
    std::int64_t batch_size = 1;
    c10::Device device = c10::Device(c10::kCPU);
    std::int64_t step_index = 0;  ///< 0 in the first step of a trial
    StepMode mode = StepMode::train;
    std::optional<ImageSize> image_size;  ///< set by `find_input_size` and by recipes
  };

  Trial(Setting const& setting, TrialWindow& window) : setting_(setting), window_(window) {}
  ~Trial() = default;
  Trial(Trial const&) = delete;
  Trial& operator=(Trial const&) = delete;

  std::int64_t batch_size() const { return setting_.batch_size; }
  c10::Device device() const { return setting_.device; }
  std::int64_t step_index() const { return setting_.step_index; }
  StepMode mode() const { return setting_.mode; }
  std::optional<ImageSize> image_size() const { return setting_.image_size; }

  /// Runs `work` and counts its memory under `phase`, that of autograd's threads included; phases nest.
  /// Returns what `work` returns; an exception of `work` leaves as the same object.  Synchronises: no.
  template <typename Work>
  decltype(auto) phase(Phase phase, Work&& work) {
    PhaseScope const scope(window_, phase);
    return std::forward<Work>(work)();
  }

 private:
  class PhaseScope {
   public:
    PhaseScope(TrialWindow& window, Phase phase) : window_(window), before_(window.enter_phase(phase)) {}
    ~PhaseScope() { window_.enter_phase(before_); }
    PhaseScope(PhaseScope const&) = delete;
    PhaseScope& operator=(PhaseScope const&) = delete;

   private:
    TrialWindow& window_;
    Phase before_;
  };

  Setting setting_;
  TrialWindow& window_;
};

}  // namespace maxbatch
