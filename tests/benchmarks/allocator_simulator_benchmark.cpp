#include "support/recorded_files.hpp"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

// Events per second of CachingAllocatorSimulator, an event being one allocation or one completed free; what a recorded
// event takes; what a copy of the state costs. MAXBATCH_RECORDING names another recording than the one checked in.

namespace maxbatch::test {
namespace {

RecordedProgram const& program() {
  static auto const loaded = [] {
    auto const* const other = std::getenv("MAXBATCH_RECORDING");
    return recorded_program(other != nullptr
                                ? std::string(other)
                                : std::string(MAXBATCH_TEST_DATA_DIR) + "/recordings/swin-plain-b12.csv.gz");
  }();
  return loaded;
}

void run(CachingAllocatorSimulator& simulator, std::vector<BlockId>& blocks) {
  for (auto const& call : program().calls) {
    if (call.allocates) {
      blocks[call.block] = simulator.allocate(call.size, call.stream);
    } else {
      simulator.free(blocks[call.block]);
    }
  }
}

void replay(benchmark::State& state, DeviceAddressSpace const& addresses, bool record_events) {
  std::vector<BlockId> blocks(program().blocks);
  std::size_t recorded = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto simulator = program().simulator(addresses, record_events);
    state.ResumeTiming();
    run(simulator, blocks);
    benchmark::DoNotOptimize(simulator.reserved_peak());
    recorded = simulator.events().size();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(program().calls.size()));
  state.counters["bytes_per_recorded_event"] = static_cast<double>(sizeof(AllocatorEvent));
  state.counters["recorded_events"] = static_cast<double>(recorded);
}

void RecordedAddresses(benchmark::State& state) {
  replay(state, DeviceAddressSpace::recorded(program().purchases), /*record_events=*/false);
}
void RecordedAddressesWithEventLog(benchmark::State& state) {
  replay(state, DeviceAddressSpace::recorded(program().purchases), /*record_events=*/true);
}
void ModelledAddresses(benchmark::State& state) {
  replay(state, DeviceAddressSpace::modelled(), /*record_events=*/false);
}

void Fork(benchmark::State& state) {
  std::vector<BlockId> blocks(program().blocks);
  auto simulator = program().simulator(DeviceAddressSpace::recorded(program().purchases));
  run(simulator, blocks);
  for (auto _ : state) {
    auto fork = simulator;
    benchmark::DoNotOptimize(fork);
  }
}

BENCHMARK(RecordedAddresses)->Unit(benchmark::kMillisecond);
BENCHMARK(RecordedAddressesWithEventLog)->Unit(benchmark::kMillisecond);
BENCHMARK(ModelledAddresses)->Unit(benchmark::kMillisecond);
BENCHMARK(Fork)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace maxbatch::test
