#include "report_page.hpp"

#include "dry_cuda/activation/environment.hpp"
#include "dry_cuda/card_profile.hpp"
#include "report_text.hpp"
#include "shared_page.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <unistd.h>

namespace maxbatch::dry {
namespace {

/// The page of the launcher, or nothing.
ReportPage* shared_page() {
  static ReportPage* const page = map_page<ReportPage>(environment().report_page_path);
  return page;
}

ProcessRecord* claim() {
  if (auto* const page = shared_page()) {
    if (auto* const record = claim_record(*page)) { return record; }
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
    claimed.devices = environment().devices;
    claimed.budget_bytes = environment().budget_bytes.value_or(-1);
    claimed.seed = static_cast<std::int64_t>(environment().seed);
    if (names_a_card(environment())) { copy_text(claimed.card, card_profile().name); }
    describe_process(claimed);
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
