#pragma once

#include <maxbatch/simulation/trace_file.hpp>
#include <maxbatch/simulation/trace_scaling.hpp>

#include <string>
#include <vector>

namespace maxbatch::test {

/// tests/data/prediction/MODEL-b2 and -b3: "vit_b_16", "gpt2", "resnet50_sgd".
inline std::string recorded_path(std::string const& model, int batch_size) {
  return std::string(MAXBATCH_TEST_DATA_DIR) + "/prediction/" + model + "-b" + std::to_string(batch_size) + ".trace.gz";
}

/// Throws: TraceError, also where maxbatch was built without zlib.
inline std::vector<SizedProgram> recorded_pair(std::string const& model) {
  std::vector<SizedProgram> pair;
  for (int const batch_size : {2, 3}) {
    pair.push_back({batch_size, program_of(read_allocation_trace(recorded_path(model, batch_size)))});
  }
  return pair;
}

/// Whether compressed recordings can be read.
inline bool has_zlib() {
  try {
    recorded_pair("vit_b_16");
    return true;
  } catch (TraceError const&) { return false; }
}

}  // namespace maxbatch::test
