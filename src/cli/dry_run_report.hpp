#pragma once

#include "dry_run_process.hpp"

#include <string>
#include <vector>

namespace maxbatch::cli {

/// The report for people, and as JSON, each ended by a newline: of the first run, and the spread where there are more.
std::string dry_run_text(DryRunOrder const& order, std::vector<DryRunOutcome> const& outcomes);
std::string dry_run_json(DryRunOrder const& order, std::vector<DryRunOutcome> const& outcomes);

/// What is special about the program's processes, a sentence each without its full stop: another CUDA, another LibTorch.
std::vector<std::string> remarks_of(dry::ReportPage const& page);

/// The most frequent exit code, the larger one of two that are as frequent.
int dry_run_exit_code(std::vector<DryRunOutcome> const& outcomes);

}  // namespace maxbatch::cli
