#include "event_gate.hpp"

#include <cstdint>
#include <unordered_map>

#include <dlfcn.h>

namespace {

struct Recorded {
  cudaStream_t stream = nullptr;
  std::uint64_t when = 0;
};

bool held = false;
std::uint64_t now = 0;
std::unordered_map<cudaEvent_t, Recorded>& events() {
  static std::unordered_map<cudaEvent_t, Recorded> all;
  return all;
}
std::unordered_map<cudaStream_t, std::uint64_t>& opened() {
  static std::unordered_map<cudaStream_t, std::uint64_t> all;
  return all;
}

template <typename Function>
Function* runtimes(char const* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace maxbatch::test {

void hold_events(bool hold) { held = hold; }
void open_stream(cudaStream_t stream) { opened()[stream] = ++now; }

}  // namespace maxbatch::test

extern "C" __attribute__((visibility("default"))) cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  static auto* const record = runtimes<decltype(cudaEventRecord)>("cudaEventRecord");
  events()[event] = {stream, ++now};
  return record(event, stream);
}

extern "C" __attribute__((visibility("default"))) cudaError_t cudaEventQuery(cudaEvent_t event) {
  static auto* const synchronise = runtimes<decltype(cudaEventSynchronize)>("cudaEventSynchronize");
  auto const& recorded = events()[event];
  if (held && opened()[recorded.stream] < recorded.when) { return cudaErrorNotReady; }
  return synchronise(event);
}
