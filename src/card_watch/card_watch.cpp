// Loaded ahead of a program that runs on a real card: starts the allocator watch as soon as LibTorch's allocator is there, and
// otherwise passes every call on. See Note [When the watch starts].
#include "dry_cuda/report/allocator_watch.hpp"
#include "dry_cuda/report/shared_page.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>

namespace maxbatch::dry {
namespace {

constexpr char const* kRuntime = "libcudart.so.13";

void own_place() {}

std::string watch_library() {
  Dl_info ours{};
  if (dladdr(reinterpret_cast<void*>(&own_place), &ours) == 0) { return {}; }
  std::string const path = ours.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + "libmaxbatch_allocator_watch.so";
}

/// The record in the launcher's page; null: nobody reads it.
ProcessRecord* record_of_this_process() {
  char const* const path = std::getenv("MAXBATCH_DRY_REPORT_PAGE");
  auto* const page = path == nullptr ? nullptr : map_page<ReportPage>(path);
  auto* const record = page == nullptr ? nullptr : claim_record(*page);
  if (record != nullptr) { describe_process(*record); }
  return record;
}

AllocatorWatchBoard* make_board() {
  auto* const record = record_of_this_process();
  if (record == nullptr) { return nullptr; }
  auto* const board = new AllocatorWatchBoard;  // the allocator lives as long as the process
  board->process = record;
  for (std::size_t i = 0; i < board->record.size(); ++i) { board->record.at(i) = &record->allocator.at(i); }
  return board;
}

/// Note [When the watch starts]
/// LibTorch's allocator takes watchers once it is initialised, and its first request for memory is seen here: the program's CUDA
/// runtime is a library of its own, ahead of which this one is loaded. Nothing happens in a process that has no such allocator.
void start_watch_once() {
  enum class State { looking, busy, settled };
  static std::atomic<State> state = State::looking;
  if (state.load(std::memory_order_relaxed) != State::looking) { return; }
  void* const allocator = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (allocator == nullptr) { return; }
  dlclose(allocator);
  auto expected = State::looking;
  if (!state.compare_exchange_strong(expected, State::busy)) { return; }  // also calls of the watch's own
  static AllocatorWatchBoard* const board = make_board();
  static void* const library = board == nullptr ? nullptr : dlopen(watch_library().c_str(), RTLD_NOW | RTLD_LOCAL);
  static auto const start =
      library == nullptr ? nullptr : reinterpret_cast<StartAllocatorWatch>(dlsym(library, kStartAllocatorWatch));
  auto const is_settled = start == nullptr || start(board);
  state = is_settled ? State::settled : State::looking;
}

template <typename Function>
Function real(char const* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    // Loaded by a library that kept it to itself.
    if (void* const runtime = dlopen(kRuntime, RTLD_LAZY | RTLD_NOLOAD)) { found = dlsym(runtime, name); }
  }
  return reinterpret_cast<Function>(found);
}

/// With expandable segments memory comes from the driver, past the runtime; then the first question for a device must do.
bool has_expandable_segments() {
  for (auto const* const variable : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    char const* const settings = std::getenv(variable);
    if (settings != nullptr && std::strstr(settings, "expandable_segments") != nullptr) { return true; }
  }
  return false;
}

constexpr int kInitializationError = 3;  // cudaErrorInitializationError: there is no runtime to pass the call on to

}  // namespace
}  // namespace maxbatch::dry

extern "C" __attribute__((visibility("default"))) int cudaMalloc(void** pointer, std::size_t size) {
  using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): the entry point lives outside
  static auto const passed_on = real<int (*)(void**, std::size_t)>("cudaMalloc");
  start_watch_once();
  return passed_on == nullptr ? kInitializationError : passed_on(pointer, size);
}

extern "C" __attribute__((visibility("default"))) int cudaGetDevice(int* device) {
  using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): the entry point lives outside
  static auto const passed_on = real<int (*)(int*)>("cudaGetDevice");
  static auto const must_start_here = has_expandable_segments();
  if (must_start_here) { start_watch_once(); }
  return passed_on == nullptr ? kInitializationError : passed_on(device);
}
