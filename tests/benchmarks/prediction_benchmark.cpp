// The largest batch for a card from two recorded traces, which are in memory already:
//   prediction_benchmark [FILE=BATCH FILE=BATCH] [--benchmark_...]
// Without files: the recordings in tests/data/prediction.

#include "support/recorded_pair.hpp"
#include <maxbatch/simulation/batch_prediction.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>
#include <maxbatch/simulation/trace_file.hpp>
#include <maxbatch/simulation/trace_scaling.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace maxbatch {
namespace {

struct NamedPair {
  std::string name;
  std::vector<AllocationTrace> traces;
  std::vector<std::int64_t> batch_sizes;
};

void predict(benchmark::State& state, NamedPair const& pair, PredictionTarget const& target) {
  std::int64_t answer = 0;
  std::size_t candidates = 0;
  for (auto _ : state) {
    std::vector<SizedProgram> programs;
    for (std::size_t i = 0; i < pair.traces.size(); ++i) {
      programs.push_back({pair.batch_sizes[i], program_of(pair.traces[i])});
    }
    auto const prediction = predict_largest_batch(TraceScaling(std::move(programs)), target);
    answer = prediction.largest_batch_size.value_or(0);
    candidates = prediction.candidates.size();
  }
  state.counters["largest_batch"] = static_cast<double>(answer);
  state.counters["candidates"] = static_cast<double>(candidates);
}

void add(NamedPair const& pair) {
  for (auto const* const card : {"rtx-2080-ti", "rtx-4090", "h200"}) {
    auto const target = whole_card(CardCatalogue::built_in().find(card));
    benchmark::RegisterBenchmark((pair.name + " on " + card).c_str(),
                                 [pair, target](benchmark::State& state) { predict(state, pair, target); })
        ->Unit(benchmark::kMillisecond)
        ->MeasureProcessCPUTime();
  }
}

NamedPair recorded(std::string const& model) {
  NamedPair pair;
  pair.name = model;
  for (int const batch_size : {2, 3}) {
    pair.traces.push_back(read_allocation_trace(test::recorded_path(model, batch_size)));
    pair.batch_sizes.push_back(batch_size);
  }
  return pair;
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  NamedPair given;
  given.name = "given";
  for (int i = 1; i < argc; ++i) {
    std::string const argument = argv[i];
    auto const equals = argument.rfind('=');
    if (equals == std::string::npos) {
      std::cerr << "prediction_benchmark: " << argument << " is not FILE=BATCH\n";
      return EXIT_FAILURE;
    }
    given.traces.push_back(read_allocation_trace(argument.substr(0, equals)));
    given.batch_sizes.push_back(std::stoll(argument.substr(equals + 1)));
  }
  if (given.traces.empty()) {
    for (auto const* const model : {"vit_b_16", "gpt2", "resnet50_sgd"}) { add(recorded(model)); }
  } else {
    add(given);
  }
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace maxbatch

int main(int argc, char** argv) { return maxbatch::run(argc, argv); }
