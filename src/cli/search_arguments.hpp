#pragma once

#include <maxbatch/models/registry.hpp>
#include <maxbatch/report/report_subject.hpp>
#include <maxbatch/training/finder_options.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace maxbatch::cli {

enum class OutputFormat { table, json };

/// What `find` and `table` have in common: how to train, where, and how to search. Each value is checked when it is read.
struct SearchArguments {
  std::string device = "cpu";
  bool rehearse = true;          ///< on the dry twin of a card of this machine, before the search
  bool fresh_processes = false;  ///< each trial in a process of its own
  bool never_fresh = false;      ///< not even where history may have decided the answer
  std::optional<std::chrono::duration<double>> trial_timeout;  ///< trials in child processes, which are ended then
  Recipe recipe;
  bool accumulation_was_given = false;
  FinderOptions finder;
  std::optional<std::int64_t> effective_batch;
  OutputFormat format = OutputFormat::table;
};

/// In the help: the options that say how a model of ours is trained.
constexpr char const* kRecipeGroup = "How the model is trained";

/// Adds their options to a command.  Throws (while parsing): UsageError.
void add_search_options(CLI::App& command, SearchArguments& arguments);
/// `--budget`: what a device may be asked for; `budget` outlives the parsing.
void add_budget_option(CLI::App& command, std::optional<Bytes>& budget);
void add_format_option(CLI::App& command, OutputFormat& format);

/// What only shows when all options are known: those that contradict each other, or that the device cannot do.
/// Throws: UsageError.
void check_together(SearchArguments const& arguments);

/// How a model is trained under these arguments. Accumulated gradients are resident during the next forward pass: for an
/// effective batch the trials run two micro-batches a step, unless the caller gave a number.
Recipe recipe_for(SearchArguments const& arguments);

/// What the report says of it: the recipe with the model's own image size filled in.
ReportSubject subject_for(ModelFactory const& model, SearchArguments const& arguments);

}  // namespace maxbatch::cli
