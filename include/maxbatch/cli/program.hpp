#pragma once

#include <maxbatch/models/registry.hpp>

#include <iosfwd>

namespace maxbatch {

/// What the program `maxbatch` returns to the shell.
enum class ExitCode : int {
  answered = 0,      ///< an answer with its proof
  step_failed = 1,   ///< the step failed for another reason than memory; its text is printed
  bad_usage = 2,     ///< an argument that cannot be right; nothing was run
  nothing_fits = 3,  ///< the smallest allowed size does not fit
  stopped_early = 4  ///< a budget of time or trials, Ctrl-C or a lost device ended the search: best so far
};

/// The whole program `maxbatch`, over any registry of models. A program of your own that knows your model, too, is one line:
///
///   int main(int argc, char** argv) {
///     return maxbatch::run_program(argc, argv, maxbatch::models::ModelRegistry::built_in().add(my_model()));
///   }
///
/// Answers go to standard output and nothing else does; progress, log and complaints go to standard error.
/// While a search runs, the first SIGINT ends it after the current trial; the second one ends the process.
int run_program(int argc, char const* const* argv,
                models::ModelRegistry const& models = models::ModelRegistry::built_in());
/// The same with streams of the caller's; `err` is then never taken for a terminal.
int run_program(int argc, char const* const* argv, models::ModelRegistry const& models, std::ostream& out,
                std::ostream& err);

}  // namespace maxbatch
