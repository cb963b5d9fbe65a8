// What listening to the CUDA caching allocator costs: nanoseconds per event, and a training step with and without it.
//
//   cuda_hook_cost [MODEL [BATCH [PAIRS]]]      small_transformer, 64, 40 unless said otherwise
//
// On a real card, all of it; on a dry one (`maxbatch dry-run --card h200 -- cuda_hook_cost`), the host's part, since
// kernels take no time there. Run it with nothing else on the machine.

#include <maxbatch/device/cuda_device.hpp>
#include <maxbatch/device/trace_recorder.hpp>
#include <maxbatch/models/registry.hpp>
#include <maxbatch/training/trial.hpp>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <time.h>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Of this thread: other work on the machine takes none of it.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// An allocation and its free from a warm cache: three events. `settle` runs between rounds, untimed.
template <typename Settle>
double nanoseconds_per_pair(Settle const& settle) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  constexpr int kPairs = 20000;  // fewer events than a trial's buffer holds
  std::vector<double> rounds;
  for (int round = 0; round < 25; ++round) {
    auto const start = processor_seconds();
    for (int i = 0; i < kPairs; ++i) { allocator::raw_delete(allocator::raw_alloc(4096)); }
    rounds.push_back((processor_seconds() - start) / kPairs * 1e9);
    settle();
  }
  return *std::min_element(rounds.begin(), rounds.end());  // what else the machine does only adds
}

struct Interval {
  double mean = 0;
  double half_width = 0;  // of 95 %
};

Interval interval_of(std::vector<double> const& values) {
  auto const count = static_cast<double>(values.size());
  Interval interval;
  for (auto const value : values) { interval.mean += value / count; }
  double squares = 0;
  for (auto const value : values) { squares += (value - interval.mean) * (value - interval.mean); }
  constexpr double kStudent = 2.045;  // for 30 values; less for more
  interval.half_width = kStudent * std::sqrt(squares / (count - 1) / count);
  return interval;
}

/// Steps outside a trial.
class NoWindow : public maxbatch::TrialWindow {
 public:
  maxbatch::Phase enter_phase(maxbatch::Phase) noexcept override { return maxbatch::Phase::other; }
  maxbatch::TrialEvidence evidence() const override { return {}; }
  void disarm() noexcept override {}
  maxbatch::Bytes still_allocated() const noexcept override { return {}; }
};

int run(std::string const& model_name, std::int64_t batch_size, int pairs) {
  if (c10::cuda::device_count() == 0) {
    std::puts("there is no CUDA device, dry or real");
    return 2;
  }
  c10::cuda::CUDACachingAllocator::init(c10::cuda::device_count());
  auto const nothing = [] {};
  auto const untouched = nanoseconds_per_pair(nothing);
  auto const device = maxbatch::cuda_device(0);
  auto const attached = nanoseconds_per_pair(nothing);
  double listening = 0;
  double counting = 0;  // seconds, after the steps of a trial
  std::int64_t counted = 0;
  {
    auto const window = device->open_trial();
    listening = nanoseconds_per_pair([&] {
      auto const start = Clock::now();
      counted = window->evidence().allocation_count;
      counting += seconds_since(start);
    });
  }
  double recording = 0;
  {
    maxbatch::TraceRecorder recorder(0, std::size_t{2} << 20U);
    recording = nanoseconds_per_pair(nothing);
  }
  std::printf("%s (%s)\n", device->describe().name.c_str(),
              std::string(to_string(device->describe().evidence)).c_str());
  std::printf("ns per allocation and free, three events: no hook %.0f, attached %.0f, trial %.0f, recorder %.0f\n",
              untouched, attached, listening, recording);
  auto const per_event = (listening - untouched) / 3;
  std::printf("ns per event: attached %.1f, trial %.1f, recorder %.1f\n", (attached - untouched) / 3, per_event,
              (recording - untouched) / 3);

  std::printf("ns per event, counted after the steps of a trial: %.1f\n",
              counting * 1e9 / 3 / static_cast<double>(std::max<std::int64_t>(1, counted)));

  device->warm_up();
  auto const models = maxbatch::models::ModelRegistry::built_in();
  auto const prepared = models.at(model_name).make(device->torch_device(), {});
  maxbatch::Trial::Setting setting;
  setting.batch_size = batch_size;
  setting.device = device->torch_device();
  setting.image_size = models.at(model_name).image_size;
  auto const step = [&](maxbatch::TrialWindow& window) {
    maxbatch::Trial trial(setting, window);
    auto const start = Clock::now();
    prepared.step(trial);
    device->synchronize();
    return seconds_since(start);
  };
  NoWindow none;
  for (int i = 0; i < 5; ++i) { step(none); }
  std::int64_t events = 0;
  {
    maxbatch::TraceRecorder counter;
    step(none);
    events = static_cast<std::int64_t>(counter.event_count());
  }
  std::vector<double> differences;
  std::vector<double> plain;
  for (int i = 0; i < pairs; ++i) {
    double with = 0;
    double without = 0;
    for (int half = 0; half < 2; ++half) {
      bool const listens = (half == 0) != (i % 2 == 0);
      auto const window = listens ? device->open_trial() : nullptr;
      maxbatch::TrialWindow& heard = listens ? *window : none;
      step(heard);  // opening a window has emptied the processor's caches
      (listens ? with : without) = step(heard);
    }
    differences.push_back((with - without) * 1e3);
    plain.push_back(without * 1e3);
  }
  auto const step_time = interval_of(plain);
  auto const difference = interval_of(differences);
  std::printf("%s, batch %lld: a step takes %.3f +- %.3f ms and has %lld events\n", model_name.c_str(),
              static_cast<long long>(batch_size), step_time.mean, step_time.half_width, static_cast<long long>(events));
  std::printf("ns per event times events: %.4f ms, %.3f %% of the step\n",
              per_event * static_cast<double>(events) / 1e6,
              per_event * static_cast<double>(events) / 1e4 / step_time.mean);
  std::printf("%d interleaved pairs, a trial listening against nobody: %+.4f ms, 95 %% within +- %.4f ms\n", pairs,
              difference.mean, difference.half_width);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "small_transformer", argc > 2 ? std::atoll(argv[2]) : 64,
               argc > 3 ? std::max(30, std::atoi(argv[3])) : 40);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
