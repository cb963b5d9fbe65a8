#pragma once

#include "dry_cuda/report/report_page.hpp"
#include <maxbatch/bytes.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch::cli {

/// What to run, on which dry card.
struct DryRunOrder {
  std::string card_name;
  std::string card_profile;  ///< the text that the dry card reads
  std::optional<Bytes> budget;
  std::int64_t seed = 0;
  std::int64_t devices = 1;
  std::vector<std::string> program;
};

/// How it went: what the shell would say, and what every process that used a dry card saw.
struct DryRunOutcome {
  int exit_code = 0;
  std::shared_ptr<dry::ReportPage const> page;
};

/// Starts the program with the dry CUDA library ahead of every other, passes the signals that would end this process on to
/// it, and waits for it. Leaves no file and no process behind.
/// Throws: UsageError when the program, or the library, is not there.
DryRunOutcome run_dry(DryRunOrder const& order);

}  // namespace maxbatch::cli
