#include "capture.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/known_bytes.hpp"
#include "dry_cuda/report/call_notes.hpp"
#include "order.hpp"
#include "stream_handle.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <unordered_map>

namespace maxbatch::dry {
namespace {

/// A graph is the count of its nodes: nothing of it ever runs.
struct Graphs {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, std::uint64_t> graphs;
  std::unordered_map<std::uintptr_t, std::uint64_t> executables;
  std::uintptr_t next = 0x1000;  // handles are numbers, spaced so that none looks like another
};

Graphs& graphs() {
  static auto* const all = new Graphs;
  return *all;
}

template <typename Handle>
Handle as_handle(std::uintptr_t number) {
  return reinterpret_cast<Handle>(number);  // NOLINT(performance-no-int-to-ptr): opaque to everyone
}
std::uintptr_t number_of(void const* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

cudaStreamCaptureStatus status_of(Capture const* capture) {
  if (capture == nullptr) { return cudaStreamCaptureStatusNone; }
  return capture->valid ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
}

cudaError_t instantiate(cudaGraphExec_t* executable, cudaGraph_t graph) {
  if (executable == nullptr) { return cudaErrorInvalidValue; }
  std::lock_guard<std::mutex> const lock(graphs().mutex);
  auto const found = graphs().graphs.find(number_of(graph));
  if (found == graphs().graphs.end()) { return cudaErrorInvalidValue; }
  auto const number = graphs().next += 16;
  graphs().executables[number] = found->second;
  *executable = as_handle<cudaGraphExec_t>(number);
  return cudaSuccess;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  return finish(begin_capture(stream, mode));
}

MAXBATCH_DRY_ENTRY cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (graph == nullptr) { return finish(cudaErrorInvalidValue); }
  *graph = nullptr;
  std::uint64_t nodes = 0;
  if (auto const status = end_capture(stream, &nodes); status != cudaSuccess) { return finish(status); }
  if (nodes == 0) { return cudaSuccess; }  // an empty capture gives no graph
  std::lock_guard<std::mutex> const lock(graphs().mutex);
  auto const number = graphs().next += 16;
  graphs().graphs[number] = nodes;
  *graph = as_handle<cudaGraph_t>(number);
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (status == nullptr) { return finish(cudaErrorInvalidValue); }
  if (auto const error = ready(); error != cudaSuccess) { return finish(error); }
  *status = status_of(capture_of(stream).get());
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                        unsigned long long* id, cudaGraph_t* graph,
                                                        cudaGraphNode_t const** dependencies,
                                                        cudaGraphEdgeData const** edges, std::size_t* count) {
  if (status == nullptr) { return finish(cudaErrorInvalidValue); }
  if (auto const error = ready(); error != cudaSuccess) { return finish(error); }
  auto const capture = capture_of(stream);
  *status = status_of(capture.get());
  if (id != nullptr) { *id = capture ? capture->id : 0; }
  if (graph != nullptr) { *graph = capture ? as_handle<cudaGraph_t>(8) : nullptr; }
  if (dependencies != nullptr) { *dependencies = nullptr; }
  if (edges != nullptr) { *edges = nullptr; }
  if (count != nullptr) { *count = 0; }
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr) { return finish(cudaErrorInvalidValue); }
  *mode = exchange_thread_mode(*mode);
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                    unsigned long long) {
  return finish(instantiate(executable, graph));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                             unsigned long long) {
  return finish(instantiate(executable, graph));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  if (!is_stream(stream)) { return finish(cudaErrorInvalidResourceHandle); }
  {
    std::lock_guard<std::mutex> const lock(graphs().mutex);
    if (graphs().executables.count(number_of(executable)) == 0) { return finish(cudaErrorInvalidValue); }
  }
  bool captured = false;
  if (auto const status = submit(stream, &captured); status != cudaSuccess || captured) { return finish(status); }
  forget_all_bytes();
  note_work();
  return cudaSuccess;
}
MAXBATCH_DRY_ENTRY cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  std::lock_guard<std::mutex> const lock(graphs().mutex);
  return finish(graphs().graphs.erase(number_of(graph)) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}
MAXBATCH_DRY_ENTRY cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  std::lock_guard<std::mutex> const lock(graphs().mutex);
  return finish(graphs().executables.erase(number_of(executable)) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}
MAXBATCH_DRY_ENTRY cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  std::lock_guard<std::mutex> const lock(graphs().mutex);
  auto const found = graphs().graphs.find(number_of(graph));
  if (found == graphs().graphs.end() || count == nullptr) { return finish(cudaErrorInvalidValue); }
  if (nodes != nullptr) { return finish(refuse("cudaGraphGetNodes", cudaErrorNotSupported)); }
  *count = found->second;
  return cudaSuccess;
}
MAXBATCH_DRY_ENTRY cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, char const*, unsigned) {
  return finish(refuse("cudaGraphDebugDotPrint", cudaErrorNotSupported));
}
