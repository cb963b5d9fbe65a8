#include "report_page.hpp"

#include "dry_cuda/activation/environment.hpp"
#include "dry_cuda/card_profile.hpp"
#include "report_text.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace maxbatch::dry {
namespace {

template <std::size_t size>
void copy_text(std::array<char, size>& to, std::string const& text) {
  auto const length = text.copy(to.data(), size - 1);
  to.at(length) = '\0';
}

std::string command_line() {
  std::string text;
  auto const file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) { return text; }
  std::array<char, 255> bytes{};
  auto const count = read(file, bytes.data(), bytes.size());
  close(file);
  for (ssize_t i = 0; i < count; ++i) {
    auto const letter = bytes.at(static_cast<std::size_t>(i));
    text += letter == '\0' ? ' ' : letter;
  }
  while (!text.empty() && text.back() == ' ') { text.pop_back(); }
  return text;
}

ReportPage* map_shared_page() {
  auto const& path = environment().report_page_path;
  if (path.empty()) { return nullptr; }
  auto const file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) { return nullptr; }
  struct stat status {};
  void* memory = MAP_FAILED;
  if (fstat(file, &status) == 0 && status.st_size >= static_cast<off_t>(sizeof(ReportPage))) {
    memory = mmap(nullptr, sizeof(ReportPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (memory == MAP_FAILED) { return nullptr; }
  auto* const page = static_cast<ReportPage*>(memory);
  return page->magic == ReportPage::kMagic ? page : nullptr;
}

/// The page of the launcher, or nothing.
ReportPage* shared_page() {
  static ReportPage* const page = map_shared_page();
  return page;
}

ProcessRecord* claim() {
  if (auto* const page = shared_page()) {
    auto const number = page->processes.fetch_add(1);
    if (number < ReportPage::kProcesses) { return &page->process.at(static_cast<std::size_t>(number)); }
  }
  static ProcessRecord private_record;
  return &private_record;
}

void report_on_standard_error() {
  auto const& record = process_record();
  if (record.process_id != getpid()) { return; }  // a forked child leaves: the report is its parent's
  auto const text = report_text(record);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

ProcessRecord& process_record() {
  static ProcessRecord& record = [&]() -> ProcessRecord& {
    auto& claimed = *claim();
    claimed.process_id = getpid();
    claimed.devices = environment().devices;
    claimed.budget_bytes = environment().budget_bytes.value_or(-1);
    claimed.seed = static_cast<std::int64_t>(environment().seed);
    if (names_a_card(environment())) { copy_text(claimed.card, card_profile().name); }
    copy_text(claimed.command, command_line());
    if (environment().report_at_exit && environment().report_page_path.empty()) {
      std::atexit(report_on_standard_error);
    }
    return claimed;
  }();
  return record;
}

void remark(Remark remark, char const* what) {
  auto* const page = shared_page();
  if (page == nullptr) { return; }
  for (auto const& known : page->remark) {
    if (known.remark.load() == remark && std::strcmp(known.what.data(), what) == 0) { return; }
  }
  auto const number = page->remarks.fetch_add(1);
  if (number >= ReportPage::kRemarks) { return; }
  auto& record = page->remark.at(static_cast<std::size_t>(number));
  std::snprintf(record.what.data(), record.what.size(), "%s", what);
  record.remark.store(remark);  // last: a reader sees all or nothing
}

}  // namespace maxbatch::dry
