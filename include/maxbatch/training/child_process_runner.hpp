#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/search/peak_predictor.hpp>
#include <maxbatch/search/search_observer.hpp>
#include <maxbatch/training/finder_options.hpp>
#include <maxbatch/training/finder_result.hpp>
#include <maxbatch/training/model_factory.hpp>
#include <maxbatch/training/recipe.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace maxbatch {

/// A step failed in a child process, at the smallest size and not for memory; or no child could be had that answers. The
/// text is the exception's, or says how the process ended, with the last lines of what it printed.
class ChildFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The world in which a child process starts.
struct ChildWorld {
  /// A name of `maxbatch cards`: the child starts on a dry card. None: in the world of this process.
  std::optional<std::string> dry_card;
  /// In place of the catalogue's figures: the text that the dry card reads (`card_profile_text`).
  std::optional<std::string> card_profile;
  std::int64_t seed = 0;  ///< a draw of the addresses that differ from run to run on a real card; 0: none
  /// "cpu" or "cuda:0", in that world.
  std::string device = "cuda:0";
};

struct ChildProcessOptions {
  ChildWorld world;
  /// Each trial in a process of its own, which knows nothing of those before; else one child runs them all, and a new one
  /// takes its place only when it crashed, hung or lost its device.
  bool fresh_process_per_trial = false;
  /// A trial that takes longer is ended with its process, and has the verdict `timed_out`. None: no limit.
  std::optional<std::chrono::duration<double>> trial_timeout;
  /// The program that answers, by `answer_if_child` or as it does. Empty: this program.
  std::vector<std::string> command;
};

/// Runs searches in child processes: the search itself stays here, the trials run there, and their outcomes come back as
/// values. A child that crashes, is killed, hangs or loses its device is the outcome of the trial that it ran, with the
/// reason; the search goes on in another child.
///
/// The children are this program, started anew: `answer_if_child` must be the first thing in its `main`, and the model must
/// be among those that it is given, since code does not travel between processes.
/// Threads: one runner per thread; runners in several threads work side by side. No file and no process is left behind.
class ChildProcessRunner {
 public:
  /// Throws: InvalidArgument; UnknownCard.
  explicit ChildProcessRunner(ChildProcessOptions options);
  ~ChildProcessRunner();
  ChildProcessRunner(ChildProcessRunner const&) = delete;
  ChildProcessRunner& operator=(ChildProcessRunner const&) = delete;

  /// The whole search for the largest batch of a model. `budget` none: what the device has. A child that is still there
  /// from the search before goes on answering. `observer` and `predictor` may be null.
  /// Of `options.search`, `before_retry` and `clock` are called in this process.
  /// Throws: ChildFailure; InvalidArgument and StepNeverRan as MaxBatchFinder::find.
  FinderResult find(std::string const& model, Recipe const& recipe, FinderOptions const& options,
                    std::optional<Bytes> budget, SearchObserver* observer = nullptr,
                    PeakPredictor* predictor = nullptr);

 private:
  class Talk;

  ChildProcessOptions options_;
  std::string card_profile_;
  std::unique_ptr<Talk> talk_;
};

/// In a process that a ChildProcessRunner started: answers its questions and ends the process. In any other it returns at
/// once. `models`: those that may be asked for, such as `models::ModelRegistry::built_in().all()`. `other_model`: makes
/// those that are not listed, such as `models::script_model_named`.
void answer_if_child(std::vector<ModelFactory> const& models,
                     std::function<std::optional<ModelFactory>(std::string const& name)> const& other_model = nullptr);

}  // namespace maxbatch
