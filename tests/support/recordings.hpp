#pragma once

#include <maxbatch/simulation/allocation_trace.hpp>
#include <maxbatch/simulation/trace_file.hpp>

#include <string>
#include <vector>

namespace maxbatch::test {

inline std::string data_file(std::string const& name) { return std::string(MAXBATCH_TEST_DATA_DIR) + '/' + name; }

/// The traces of a file of tests/data, one for each device.
inline std::vector<AllocationTrace> recordings_in(std::string const& name) {
  return read_allocation_traces(data_file(name));
}
inline AllocationTrace recording(std::string const& name) { return read_allocation_trace(data_file(name)); }

}  // namespace maxbatch::test
