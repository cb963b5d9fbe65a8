// What the budgeted CPU device costs per allocation: LibTorch's own allocator, ours passing through, ours between trials
// (frees are still followed), and ours charging. Its numbers are in docs/cpu_budget.md.

#include <maxbatch/device/budgeted_cpu_device.hpp>

#include <c10/core/CPUAllocator.h>

#include <benchmark/benchmark.h>

#include <memory>

namespace {

/// Before any device is made: what LibTorch brings.
c10::Allocator& upstream() {
  static auto& allocator = *c10::GetDefaultCPUAllocator();
  return allocator;
}

void allocate_and_free(benchmark::State& state, c10::Allocator& allocator) {
  auto const size = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    auto memory = allocator.allocate(size);
    benchmark::DoNotOptimize(memory.get());
  }
}

void Upstream(benchmark::State& state) { allocate_and_free(state, upstream()); }

void PassingThrough(benchmark::State& state) {
  static auto const device = maxbatch::budgeted_cpu_device();
  allocate_and_free(state, *c10::GetCPUAllocator());
}

void BetweenTrialsWithChargesLive(benchmark::State& state) {
  static auto const device = maxbatch::budgeted_cpu_device();
  c10::DataPtr charged;
  if (state.thread_index() == 0) {
    auto const window = device->open_trial();
    charged = c10::GetCPUAllocator()->allocate(1);
  }
  allocate_and_free(state, *c10::GetCPUAllocator());
}

void Charging(benchmark::State& state) {
  static auto const device = maxbatch::budgeted_cpu_device();
  static std::unique_ptr<maxbatch::TrialWindow> window;
  if (state.thread_index() == 0) { window = device->open_trial(); }
  allocate_and_free(state, *c10::GetCPUAllocator());  // its loop begins and ends with a barrier of all threads
  if (state.thread_index() == 0) { window.reset(); }
}

BENCHMARK(Upstream)->Arg(64)->Arg(4096)->Arg(1 << 16)->ThreadRange(1, 2)->UseRealTime();
BENCHMARK(PassingThrough)->Arg(64)->Arg(4096)->Arg(1 << 16)->ThreadRange(1, 2)->UseRealTime();
BENCHMARK(BetweenTrialsWithChargesLive)->Arg(64)->Arg(4096)->Arg(1 << 16)->ThreadRange(1, 2)->UseRealTime();
BENCHMARK(Charging)->Arg(64)->Arg(4096)->Arg(1 << 16)->ThreadRange(1, 2)->UseRealTime();

}  // namespace
