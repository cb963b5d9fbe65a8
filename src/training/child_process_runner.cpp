#include "../process/child_process.hpp"
#include "../process/dry_world.hpp"
#include "child_questions.hpp"
#include "result_sentences.hpp"
#include <maxbatch/search/allowed_sizes.hpp>
#include <maxbatch/search/batch_size_search.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/search/phase_line_predictor.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>
#include <maxbatch/training/child_process_runner.hpp>

#include <cstdlib>
#include <filesystem>
#include <utility>

namespace maxbatch {
namespace {

using detail::Json;
using process::ChildProcess;

/// A child that was told to end has to come to its end within this.
constexpr std::chrono::duration<double> kPatience(10);

std::string with_last_words(std::string text, ChildProcess const& child) {
  auto words = child.last_words();
  while (!words.empty() && words.back() == '\n') { words.pop_back(); }
  if (!words.empty()) { text += "; it last printed: " + words.substr(words.size() > 600 ? words.size() - 600 : 0); }
  return text;
}

/// Also asks for a stop when the child found that its trials leak.
class StoppableObserver : public SearchObserver {
 public:
  explicit StoppableObserver(SearchObserver* next) : next_(next) {}
  void stop() { must_stop_ = true; }

  void trial_started(std::int64_t size, TrialPurpose purpose, SearchProgress const& progress) override {
    if (next_ != nullptr) { next_->trial_started(size, purpose, progress); }
  }
  void trial_finished(TrialRecord const& record) override {
    if (next_ != nullptr) { next_->trial_finished(record); }
  }
  bool stop_requested() override { return must_stop_ || (next_ != nullptr && next_->stop_requested()); }

 private:
  SearchObserver* next_;
  bool must_stop_ = false;
};

}  // namespace

/// The talk with one child after another about one search after another.
class ChildProcessRunner::Talk {
 public:
  Talk(ChildProcessOptions const& options, std::string const& card_profile) : options_(options) {
    if (options.world.dry_card || options.world.card_profile) {
      process::DryWorldOrder order;
      order.card_name = options.world.dry_card.value_or("a card profile");
      order.card_profile = card_profile;
      order.seed = options.world.seed;
      world_.emplace(order);
    }
  }

  /// Begins a search, in the child that is there or in a new one.
  void open(detail::ChildOrder order) {
    order_ = detail::dump(detail::order_to_json(order), -1);
    closed_ = Json();
    warnings_.clear();
    open_in_child();
  }

  DeviceDescription device() const { return detail::device_from(device_); }

  TrialOutcome run(std::int64_t size, StoppableObserver& observer) {
    if (!is_open_) { open_in_child(); }
    Json question;
    question["do"] = "try";
    question["size"] = size;
    child_->send(detail::dump(question, -1));
    std::string line;
    auto const received = child_->receive(line, options_.trial_timeout);
    if (received == ChildProcess::Received::timed_out) { return replaced(Verdict::timed_out, timeout_text()); }
    if (received == ChildProcess::Received::closed) { return replaced(Verdict::failed, end_of_child()); }
    auto const answer = understood(line, "outcome");
    if (answer.contains("error")) {
      is_open_ = false;
      throw_error(answer);
    }
    auto outcome = detail::outcome_from(answer.at("outcome"));
    if (answer.at("must_stop").get<bool>()) { observer.stop(); }
    if (outcome.verdict == Verdict::device_lost) {
      auto const reason = outcome.reason + "; the process was replaced by a new one";
      outcome = replaced(Verdict::failed, reason);
    } else if (options_.fresh_process_per_trial) {
      close();
      child_.reset();
    }
    return outcome;
  }

  void flush() {
    if (!is_open_) { return; }
    if (!exchange(R"({"do": "flush"})", "flushed")) { abandon(); }
  }

  /// Ends a search. The child stays for the next one.
  void close() {
    if (!is_open_) { return; }
    is_open_ = false;
    auto const answer = exchange(R"({"do": "close"})", "closed");
    if (!answer) {
      child_.reset();
      return;
    }
    if (answer->contains("error")) { throw_error(*answer); }
    closed_ = *answer;
    for (auto const& warning : answer->at("warnings")) { warnings_.push_back(warning.get<std::string>()); }
  }

  /// Whatever the child is at, it is not heard any more.
  void abandon() {
    is_open_ = false;
    child_.reset();
  }

  std::vector<std::string> const& warnings() const { return warnings_; }
  /// Why the child wanted the search to end; empty: it did not.
  std::string reason() const { return closed_.is_null() ? "" : closed_.at("reason").get<std::string>(); }

 private:
  void open_in_child() {
    if (!child_) { start(); }
    auto const answer = exchange(order_, "opened");
    if (!answer) {
      auto const how = end_of_child();
      child_.reset();
      throw ChildFailure("the child process " + how +
                         " before its first trial. Is `maxbatch::answer_if_child` the first thing in its main?");
    }
    if (answer->contains("error")) { throw_error(*answer); }
    device_ = answer->at("opened");
    is_open_ = true;
  }

  void start() {
    if (std::getenv(process::channel_variable(ChildProcess::Talk::trials)) != nullptr) {
      throw ChildFailure(
          "this process is itself the child of a search and has not answered: `maxbatch::answer_if_child` must be the "
          "first thing in main");
    }
    auto command = options_.command;
    if (command.empty()) { command = {std::filesystem::read_symlink("/proc/self/exe").string()}; }
    try {
      child_ = std::make_unique<ChildProcess>(command, world_ ? world_->environment() : process::EnvironmentChanges{});
    } catch (process::ProcessNotStarted const& error) { throw ChildFailure(error.what()); }
  }

  /// The answer to one question; none when the child ended instead.
  std::optional<Json> exchange(std::string const& question, char const* wanted) {
    child_->send(question);
    std::string line;
    if (child_->receive(line) != ChildProcess::Received::line) { return std::nullopt; }
    return understood(line, wanted);
  }

  /// What the child said, if it holds what was `wanted`, or an error.
  static Json understood(std::string const& line, char const* wanted) {
    auto answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (answer.is_object() && (answer.contains(wanted) || answer.contains("error"))) { return answer; }
    throw ChildFailure("the child process answered '" + line.substr(0, 80) +
                       "', which is not what a program of this version of maxbatch says");
  }

  TrialOutcome replaced(Verdict verdict, std::string reason) {
    TrialOutcome outcome;
    outcome.verdict = verdict;
    outcome.steps = 0;
    outcome.reason = std::move(reason);
    abandon();
    return outcome;
  }

  /// "was killed by signal 9 (Killed)", with what it printed.
  std::string end_of_child() { return with_last_words(child_->finish(kPatience).describe(), *child_); }

  std::string timeout_text() const {
    return with_last_words(
        "the trial took longer than the " + std::to_string(options_.trial_timeout->count()) + " s that it was given",
        *child_);
  }

  [[noreturn]] static void throw_error(Json const& answer) {
    auto const kind = answer.at("error").get<std::string>();
    auto const text = answer.at("text").get<std::string>();
    if (kind == "invalid argument") { throw InvalidArgument(text); }
    if (kind == "step never ran") { throw StepNeverRan(text); }
    throw ChildFailure(text);
  }

  ChildProcessOptions const& options_;
  std::optional<process::DryWorld> world_;
  std::unique_ptr<ChildProcess> child_;
  bool is_open_ = false;
  std::string order_;
  Json device_;
  Json closed_;
  std::vector<std::string> warnings_;
};

ChildProcessRunner::ChildProcessRunner(ChildProcessOptions options) : options_(std::move(options)) {
  if (options_.trial_timeout && !(options_.trial_timeout->count() > 0)) {
    throw InvalidArgument("trial_timeout is " + std::to_string(options_.trial_timeout->count()) +
                          " s; it must be above zero");
  }
  if (options_.world.card_profile) {
    card_profile_ = *options_.world.card_profile;
  } else if (options_.world.dry_card) {
    card_profile_ = card_profile_text(CardCatalogue::built_in().find(*options_.world.dry_card));
  }
}

ChildProcessRunner::~ChildProcessRunner() = default;

FinderResult ChildProcessRunner::find(std::string const& model, Recipe const& recipe, FinderOptions const& options,
                                      std::optional<Bytes> budget, SearchObserver* observer, PeakPredictor* predictor) {
  if (!talk_) { talk_ = std::make_unique<Talk>(options_, card_profile_); }
  auto& talk = *talk_;
  talk.open({model, recipe, options_.world.device, budget, options});
  auto const device = talk.device();
  PhaseLinePredictor lines(device.budget.value_or(device.usable.value_or(device.total)), /*exponent=*/1.0);
  StoppableObserver stoppable(observer);
  auto search = options.search;
  search.before_retry = [&talk, callers_flush = options.search.before_retry] {
    talk.flush();
    if (callers_flush) { callers_flush(); }
  };

  auto const smallest = AllowedSizes(search).at(0);
  auto const probe = [&](std::int64_t size) {
    auto outcome = talk.run(size, stoppable);
    // Here an exception of the step would have passed through.
    if (size == smallest && outcome.verdict == Verdict::failed) { throw ChildFailure(outcome.reason); }
    return outcome;
  };

  FinderResult result;
  try {
    result.search = search_largest_batch_size(probe, search, predictor != nullptr ? predictor : &lines, &stoppable);
    talk.close();
  } catch (...) {
    talk.abandon();
    throw;
  }
  if (!talk.reason().empty()) { result.search.reason = talk.reason(); }
  result.device = device;
  result.headroom = options.headroom;
  result.steps = options.steps;
  result.warnings = talk.warnings();
  for (auto& warning : detail::warnings_of(result.search)) { result.warnings.push_back(std::move(warning)); }
  return result;
}

}  // namespace maxbatch
