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
  std::string card_profile;    ///< the text that the dry card reads
  std::string context_source;  ///< what the context's share of the card rests on, in words
  std::string convolutions;    ///< a table that goes before the built-in ones; empty: none
  std::optional<Bytes> budget;
  std::int64_t seed = 0;
  std::int64_t devices = 1;
  std::string data_policy;  ///< empty: the worst case
  std::string data_rules;   ///< a file; empty: none
  std::vector<std::string> program;
};

/// How it went: what the shell would say, and what every process that used a dry card saw.
struct DryRunOutcome {
  std::int64_t seed = 0;
  int exit_code = 0;
  std::shared_ptr<dry::ReportPage const> page;
  std::vector<std::string> questions;  ///< about convolutions, that no table answered; each once
  Bytes resident;                      ///< host memory of the largest process at its peak
};

/// Starts the program with the dry CUDA library ahead of every other, passes the signals that would end this process on to
/// it, and waits for it. Leaves no file and no process behind.
/// Throws: UsageError when the program, or the library, is not there, or is none that could be dry (program_file.hpp).
DryRunOutcome run_dry(DryRunOrder const& order);

/// The same once for each of `count` seeds, from `order.seed` on; in their order. The first one alone, in the foreground;
/// the others say nothing and read nothing, several at a time as far as processors and memory allow.
std::vector<DryRunOutcome> run_dry_seeds(DryRunOrder const& order, std::int64_t count);

}  // namespace maxbatch::cli
