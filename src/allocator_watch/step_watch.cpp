#include "step_watch.hpp"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace maxbatch::dry {
namespace {

constexpr int kNoBackward = -1;
constexpr std::int64_t kFewestBackwardPasses = 32;

bool begins_with(char const* text, char const* beginning) {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

// torch/optim/optimizer.py and torch/utils/data/dataloader.py of LibTorch 2.11.
bool is_optimizer_step(char const* name) { return begins_with(name, "Optimizer.step#"); }
bool begins_a_step(char const* name) {
  return begins_with(name, "Optimizer.zero_grad#") || begins_with(name, "enumerate(DataLoader)#");
}

/// Optimizers may wrap one another.
int& optimizer_depth() {
  thread_local int depth = 0;
  return depth;
}

}  // namespace

StepWatch& step_watch() {
  static auto* const the_watch = new StepWatch;  // callbacks cannot be taken back from an ending process
  return *the_watch;
}

void StepWatch::begin(StepsRecord* record, std::int64_t wanted, ReadFigures read_figures) {
  record_ = record;
  record_->wanted = wanted;
  read_figures_ = std::move(read_figures);
  register_with_libtorch();
}

void StepWatch::register_with_libtorch() {
  at::addGlobalCallback(at::RecordFunctionCallback(
                            [](at::RecordFunction const& function) -> std::unique_ptr<at::ObserverContext> {
                              if (is_optimizer_step(function.name())) {
                                ++optimizer_depth();
                              } else if (begins_a_step(function.name())) {
                                step_watch().is_past_setup_ = true;
                              }
                              return nullptr;
                            },
                            [](at::RecordFunction const& function, at::ObserverContext*) {
                              if (!is_optimizer_step(function.name()) || optimizer_depth() == 0) { return; }
                              if (--optimizer_depth() == 0) { step_watch().optimizer_ended(); }
                            })
                            .scopes({at::RecordScope::USER_SCOPE}));
}

WatchedPhase StepWatch::phase_of_this_thread() {
  auto const backward = torch::autograd::get_current_graph_task_id();
  if (backward != kNoBackward) {
    // Nested passes (checkpoints) have higher numbers than the one that they are in, which goes on after them.
    auto const last = last_backward_.load(std::memory_order_relaxed);
    if (backward > last) {
      last_backward_ = backward;
      if (optimizer_depth() == 0) { backward_began(); }
    }
    return WatchedPhase::backward;
  }
  if (optimizer_depth() > 0) { return WatchedPhase::optimizer; }
  return is_past_setup_.load(std::memory_order_relaxed) ? WatchedPhase::forward : WatchedPhase::setup;
}

void StepWatch::backward_began() {
  is_past_setup_ = true;
  if (record_ == nullptr || has_optimizer_) { return; }
  if (record_->mark == StepMark::none) {
    std::lock_guard<std::mutex> const lock(mutex_);
    record_->mark = StepMark::backward;
    recogniser_ = StepRecogniser(std::max(kFewestBackwardPasses, record_->wanted));
    return;  // it ends no step
  }
  end_step(StepMark::backward);
}

void StepWatch::optimizer_ended() {
  if (record_ == nullptr) { return; }
  is_past_setup_ = true;
  if (!has_optimizer_.exchange(true)) {
    std::lock_guard<std::mutex> const lock(mutex_);
    record_->mark = StepMark::optimizer;
    record_->complete = 0;
    recogniser_ = StepRecogniser(record_->wanted);
  }
  end_step(StepMark::optimizer);
}

void StepWatch::end_step(StepMark mark) {
  auto const figures = read_figures_(mark);
  std::lock_guard<std::mutex> const lock(mutex_);
  recogniser_.add(figures);
  record_->complete = recogniser_.count();
  if (recogniser_.is_settled()) { record_->settled = 1; }
}

}  // namespace maxbatch::dry
