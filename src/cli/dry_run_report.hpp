#pragma once

#include "dry_run_process.hpp"

#include <string>

namespace maxbatch::cli {

/// The report for people, and as JSON; both end with a newline.
std::string dry_run_text(DryRunOrder const& order, DryRunOutcome const& outcome);
std::string dry_run_json(DryRunOrder const& order, DryRunOutcome const& outcome);

}  // namespace maxbatch::cli
