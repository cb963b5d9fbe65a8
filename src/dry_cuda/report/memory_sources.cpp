#include "memory_sources.hpp"

#include "allocator_watch.hpp"
#include "dry_cuda/card_profile.hpp"
#include "dry_cuda/runtime/current_device.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include <dlfcn.h>

namespace maxbatch::dry {
namespace {

constexpr char const* kMeasuredCard = "NVIDIA H200";

AllocatorWatchBoard& board() {
  static auto* const the_board = new AllocatorWatchBoard;  // the allocator lives as long as the process
  return *the_board;
}

std::atomic<bool> watching = false;

ExpectedScratch* expected_of_this_thread() {
  thread_local ExpectedScratch expected;
  return &expected;
}

/// libmaxbatch_allocator_watch.so beside this very library.
std::string watch_library() {
  Dl_info ours{};
  if (dladdr(reinterpret_cast<void*>(&expected_of_this_thread), &ours) == 0) { return {}; }
  std::string const path = ours.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + "libmaxbatch_allocator_watch.so";
}

bool has_libtorch_allocator() {
  void* const library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) { dlclose(library); }
  return library != nullptr;
}

}  // namespace

ScratchAnswer certain(MemorySource source, std::int64_t bytes) { return {source, bytes, bytes, bytes}; }

void count_scratch_answer(ScratchAnswer answer) {
  static auto* const mutex = new std::mutex;
  static bool const is_measured_card = card_profile().name == kMeasuredCard;
  if (answer.source == MemorySource::rule && !is_measured_card) { answer.source = MemorySource::estimate; }
  std::lock_guard<std::mutex> const lock(*mutex);
  auto& record = process_record().source.at(static_cast<std::size_t>(answer.source));
  ++record.answers;
  record.largest_bytes = std::max(record.largest_bytes, answer.bytes);
}

void expect_scratch(ScratchAnswer answer) {
  count_scratch_answer(answer);
  if (answer.bytes == 0) { return; }
  auto& expected = *expected_of_this_thread();
  // The oldest was never allocated.
  if (expected.count == static_cast<int>(expected.answer.size())) {
    std::rotate(expected.answer.begin(), expected.answer.begin() + 1, expected.answer.end());
    --expected.count;
  }
  expected.answer.at(static_cast<std::size_t>(expected.count++)) = answer;
}

void scratch_is_at(ScratchAnswer answer, void const* memory) {
  if (memory == nullptr || !watching.load(std::memory_order_acquire)) { return; }
  board().scratch_is_at(current_device(), answer, memory);
}

void start_allocator_watch() {
  static std::atomic<bool> settled = false;
  if (settled.load(std::memory_order_relaxed) || !has_libtorch_allocator() || settled.exchange(true)) { return; }
  auto& the_board = board();
  for (std::size_t i = 0; i < the_board.record.size(); ++i) {
    the_board.record.at(i) = &process_record().allocator.at(i);
  }
  the_board.process = &process_record();
  the_board.expected_of_this_thread = expected_of_this_thread;
  void* const library = dlopen(watch_library().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) { return; }  // another LibTorch, or built without: the report says that nobody watched
  auto const start = reinterpret_cast<StartAllocatorWatch>(dlsym(library, kStartAllocatorWatch));
  if (start != nullptr && start(&the_board)) { watching.store(true, std::memory_order_release); }
}

}  // namespace maxbatch::dry
