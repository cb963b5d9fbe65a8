// Asks the CUDA runtime what it refuses while a stream is captured, and prints the answers a line each: `question = answer`.
// They must be the same on a dry card as on a real one. Needs no nvcc, makes no kernel: the work is cudaMemsetAsync.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>
#include <thread>
#include <utility>

namespace {

void say(std::string const& question, cudaError_t status) {
  std::printf("%s = %s\n", question.c_str(), cudaGetErrorName(status));
  cudaGetLastError();
}

/// A stream that is captured, with a piece of work in it, and what calls want.
class Captured {
 public:
  explicit Captured(cudaStreamCaptureMode mode, unsigned flags = cudaStreamNonBlocking) {
    cudaMalloc(&memory, 4096);
    cudaStreamCreateWithFlags(&stream, flags);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    for (auto* const made : {&inside, &outside, &late}) { cudaEventCreateWithFlags(made, cudaEventDisableTiming); }
    cudaEventRecord(outside, other);
    cudaDeviceSynchronize();
    cudaStreamBeginCapture(stream, mode);
    cudaMemsetAsync(memory, 0, 256, stream);
    cudaEventRecord(inside, stream);
  }

  /// What becomes of the capture is told, too: whether it goes on, and how it ends.
  void end(std::string const& question) {
    cudaStreamCaptureStatus status{};
    cudaStreamIsCapturing(stream, &status);
    cudaGetLastError();
    std::printf("%s, capture is then = %d\n", question.c_str(), static_cast<int>(status));
    say(question + ", more work", cudaMemsetAsync(memory, 0, 256, stream));
    cudaGraph_t graph = nullptr;
    say(question + ", end", cudaStreamEndCapture(stream, &graph));
    std::printf("%s, graph is there = %d\n", question.c_str(), graph != nullptr ? 1 : 0);
    if (graph != nullptr) { cudaGraphDestroy(graph); }
    // Whatever went wrong, what comes later must not: streams that are still captured are ended by force.
    cudaStreamDestroy(other);
    cudaStreamDestroy(stream);
    cudaDeviceSynchronize();
    cudaFree(memory);
    cudaGetLastError();
  }

  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  cudaEvent_t inside = nullptr;
  cudaEvent_t outside = nullptr;
  cudaEvent_t late = nullptr;
};

template <typename Call>
void ask(std::string const& question, cudaStreamCaptureMode mode, Call const& call) {
  Captured captured(mode);
  say(question, call(captured));
  captured.end(question);
}

void ask_in_mode(std::string const& name, cudaStreamCaptureMode mode) {
  ask(name + " nothing", mode, [](Captured&) { return cudaSuccess; });
  ask(name + " cudaMalloc", mode, [](Captured&) {
    void* pointer = nullptr;
    return cudaMalloc(&pointer, 1 << 20);
  });
  ask(name + " cudaMalloc relaxed", mode, [](Captured&) {
    auto relaxed = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&relaxed);
    void* pointer = nullptr;
    auto const status = cudaMalloc(&pointer, 1 << 20);
    cudaThreadExchangeStreamCaptureMode(&relaxed);
    return status;
  });
  ask(name + " cudaMalloc in another thread", mode, [](Captured&) {
    auto status = cudaSuccess;
    std::thread([&] {
      void* pointer = nullptr;
      status = cudaMalloc(&pointer, 1 << 20);
    }).join();
    return status;
  });
  ask(name + " cudaFree", mode, [](Captured& in) { return cudaFree(std::exchange(in.memory, nullptr)); });
  ask(name + " cudaHostAlloc", mode, [](Captured&) {
    void* pointer = nullptr;
    return cudaHostAlloc(&pointer, 4096, cudaHostAllocDefault);
  });
  ask(name + " cudaMemGetInfo", mode, [](Captured&) {
    std::size_t free = 0;
    std::size_t total = 0;
    return cudaMemGetInfo(&free, &total);
  });
  ask(name + " cudaDeviceSynchronize", mode, [](Captured&) { return cudaDeviceSynchronize(); });
  ask(name + " cudaStreamSynchronize", mode, [](Captured& in) { return cudaStreamSynchronize(in.stream); });
  ask(name + " cudaStreamSynchronize other", mode, [](Captured& in) { return cudaStreamSynchronize(in.other); });
  ask(name + " cudaStreamQuery", mode, [](Captured& in) { return cudaStreamQuery(in.stream); });
  ask(name + " cudaStreamQuery other", mode, [](Captured& in) { return cudaStreamQuery(in.other); });
  ask(name + " cudaEventQuery inside", mode, [](Captured& in) { return cudaEventQuery(in.inside); });
  ask(name + " cudaEventQuery outside", mode, [](Captured& in) { return cudaEventQuery(in.outside); });
  ask(name + " cudaEventSynchronize inside", mode, [](Captured& in) { return cudaEventSynchronize(in.inside); });
  ask(name + " cudaEventSynchronize outside", mode, [](Captured& in) { return cudaEventSynchronize(in.outside); });
  ask(name + " cudaMemcpy to host", mode, [](Captured& in) {
    int value = 0;
    return cudaMemcpy(&value, in.memory, sizeof value, cudaMemcpyDeviceToHost);
  });
  ask(name + " cudaMemcpyAsync to pageable", mode, [](Captured& in) {
    static int value = 0;
    return cudaMemcpyAsync(&value, in.memory, sizeof value, cudaMemcpyDeviceToHost, in.stream);
  });
  ask(name + " cudaMemsetAsync legacy", mode, [](Captured& in) { return cudaMemsetAsync(in.memory, 0, 16, nullptr); });
  ask(name + " wait for outside", mode, [](Captured& in) { return cudaStreamWaitEvent(in.stream, in.outside, 0); });
  ask(name + " wait for never", mode, [](Captured& in) { return cudaStreamWaitEvent(in.stream, in.late, 0); });
  ask(name + " begin again", mode, [&](Captured& in) { return cudaStreamBeginCapture(in.stream, mode); });
  ask(name + " end in another thread", mode, [](Captured& in) {
    auto status = cudaSuccess;
    cudaGraph_t graph = nullptr;
    std::thread([&] { status = cudaStreamEndCapture(in.stream, &graph); }).join();
    return status;
  });
  ask(name + " fork", mode, [](Captured& in) {
    cudaStreamWaitEvent(in.other, in.inside, 0);
    return cudaMemsetAsync(in.memory, 0, 16, in.other);
  });
  ask(name + " fork without work", mode, [](Captured& in) { return cudaStreamWaitEvent(in.other, in.inside, 0); });
  ask(name + " fork and join", mode, [](Captured& in) {
    cudaStreamWaitEvent(in.other, in.inside, 0);
    cudaMemsetAsync(in.memory, 0, 16, in.other);
    cudaEventRecord(in.late, in.other);
    return cudaStreamWaitEvent(in.stream, in.late, 0);
  });
  ask(name + " end in a fork", mode, [](Captured& in) {
    cudaStreamWaitEvent(in.other, in.inside, 0);
    cudaGraph_t graph = nullptr;
    return cudaStreamEndCapture(in.other, &graph);
  });
}

void ask_of_streams_that_wait_for_legacy() {
  for (auto const& [name, stream] : {std::pair{"legacy", cudaStreamLegacy}, std::pair{"null", cudaStream_t{}}}) {
    Captured captured(cudaStreamCaptureModeRelaxed, cudaStreamDefault);
    auto const question = std::string("blocking stream, work in the stream ") + name;
    say(question, cudaMemsetAsync(captured.memory, 0, 16, stream));
    captured.end(question);
  }
}

void ask_of_two() {
  Captured one(cudaStreamCaptureModeRelaxed);
  Captured two(cudaStreamCaptureModeRelaxed);
  say("wait for another capture", cudaStreamWaitEvent(one.stream, two.inside, 0));
  one.end("waited for another capture, one");
  two.end("waited for another capture, two");
}

}  // namespace

int main() {
  cudaFree(nullptr);
  ask_in_mode("global", cudaStreamCaptureModeGlobal);
  ask_in_mode("thread", cudaStreamCaptureModeThreadLocal);
  ask_in_mode("relaxed", cudaStreamCaptureModeRelaxed);
  ask_of_streams_that_wait_for_legacy();
  ask_of_two();
}
