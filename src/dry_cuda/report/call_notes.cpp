#include "call_notes.hpp"

#include "report_page.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>

#include <unistd.h>

namespace maxbatch::dry {
namespace {

std::mutex& notes_mutex() {
  static auto* const mutex = new std::mutex;  // calls are noted until the very end of the process
  return *mutex;
}

/// Whether this was the first note of the name.
bool note(char const* name, CallNote kind) {
  std::lock_guard<std::mutex> const lock(notes_mutex());
  auto& record = process_record();
  for (int i = 0; i < record.calls; ++i) {
    auto& call = record.call.at(static_cast<std::size_t>(i));
    if (call.note == kind && std::strncmp(call.name.data(), name, call.name.size() - 1) == 0) {
      ++call.count;
      return false;
    }
  }
  if (record.calls == ProcessRecord::kCalls) {
    ++record.calls_left_out;
    return false;
  }
  auto& call = record.call.at(static_cast<std::size_t>(record.calls));
  std::snprintf(call.name.data(), call.name.size(), "%s", name);
  call.note = kind;
  call.count = 1;
  ++record.calls;
  return true;
}

}  // namespace

void note_missing_entry_point(char const* name) { note(name, CallNote::missing); }

}  // namespace maxbatch::dry

extern "C" void maxbatch_dry_note_refused(char const* name) {
  if (!maxbatch::dry::note(name, maxbatch::dry::CallNote::refused)) { return; }
  std::array<char, 160> line{};
  auto const length =
      std::snprintf(line.data(), line.size(), "maxbatch dry-run: not supported on a dry card: %s\n", name);
  if (length > 0) { [[maybe_unused]] auto const written = write(STDERR_FILENO, line.data(), std::strlen(line.data())); }
}

extern "C" void maxbatch_dry_note_defaulted(char const* name) {
  maxbatch::dry::note(name, maxbatch::dry::CallNote::defaulted);
}
