#pragma once

#include "dry_cuda/report/report_page.hpp"
#include "step_recogniser.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

namespace maxbatch::dry {

/// Follows the training program of this process from outside: what it is at, and where its steps end.
///
/// Note [Where a step ends]
/// LibTorch's Python optimizers announce each step to whoever registered with at::RecordFunction; its outermost end is the end of
/// a training step, accumulated gradients included. Programs in C++, or with an optimizer of their own, do not say so; there a
/// step reaches from the beginning of one backward pass to that of the next, and since several of those may belong to one
/// optimizer step, many more have to repeat themselves.
class StepWatch {
 public:
  /// Of what has been going on since the step before; called at the end of each step.
  using ReadFigures = std::function<StepFigures(StepMark mark)>;

  /// `wanted`: steps that must have run before the program counts as settled.
  void begin(StepsRecord* record, std::int64_t wanted, ReadFigures read_figures);

  /// What the calling thread is at. Called for each event of the allocator, under its lock.
  WatchedPhase phase_of_this_thread();

 private:
  static void register_with_libtorch();
  void optimizer_ended();
  void backward_began();
  void end_step(StepMark mark);

  StepsRecord* record_ = nullptr;
  ReadFigures read_figures_;
  std::mutex mutex_;
  StepRecogniser recogniser_{1};
  std::atomic<int> last_backward_ = -1;
  std::atomic<bool> is_past_setup_ = false;
  std::atomic<bool> has_optimizer_ = false;
};

/// The only one of this process.
StepWatch& step_watch();

}  // namespace maxbatch::dry
