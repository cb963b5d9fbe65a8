#pragma once

#include "log.hpp"
#include "progress.hpp"
#include <maxbatch/cli/program.hpp>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace maxbatch::cli {

/// What a command works with.
struct Surroundings {
  models::ModelRegistry const& models;
  std::ostream& out;
  StatusStream& status;
  Log& log;
  std::vector<std::string> const& program;  ///< what stood after `--`, of a command that starts somebody's program
};

/// Runs after the whole command line has been read.
using Command = std::function<ExitCode(Surroundings const&)>;

/// Each adds its subcommand with its options to `app`; `chosen` is set when it is the one that was asked for.
void add_find_command(CLI::App& app, Command& chosen);
void add_find_image_command(CLI::App& app, Command& chosen);
void add_table_command(CLI::App& app, Command& chosen);
void add_bench_command(CLI::App& app, Command& chosen);
void add_models_command(CLI::App& app, Command& chosen);
void add_predict_command(CLI::App& app, Command& chosen);
void add_dry_run_command(CLI::App& app, Command& chosen);
void add_profile_gpu_command(CLI::App& app, Command& chosen);
void add_cards_command(CLI::App& app, Command& chosen);
void add_replay_command(CLI::App& app, Command& chosen);
void add_trace_command(CLI::App& app, Command& chosen);
void add_compare_traces_command(CLI::App& app, Command& chosen);

}  // namespace maxbatch::cli
