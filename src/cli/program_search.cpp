#include "program_search.hpp"

#include "dry_run_report.hpp"
#include "next_sizes.hpp"
#include "program_file.hpp"
#include "program_predictor.hpp"
#include "program_trial.hpp"
#include "stop_signal.hpp"
#include "temporary_folder.hpp"
#include "usage_error.hpp"
#include <maxbatch/search/allowed_sizes.hpp>
#include <maxbatch/search/batch_size_search.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace maxbatch::cli {
namespace {

constexpr std::chrono::duration<double> kGlance(0.005);

volatile std::sig_atomic_t ended_by = 0;
extern "C" void remember_end(int signal) { ended_by = signal; }

/// While one lives, signals that would end this process are kept until its children are gone and its files removed. The first
/// Ctrl-C is StopSignal's; the second one counts here.
class EndSignals {
 public:
  EndSignals() {
    ended_by = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i) { take(kSignals.at(i), before_.at(i)); }
  }
  ~EndSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) { sigaction(kSignals.at(i), &before_.at(i), nullptr); }
    if (has_interrupt_) { sigaction(SIGINT, &before_interrupt_, nullptr); }
    if (ended_by != 0) { std::raise(ended_by); }
  }
  EndSignals(EndSignals const&) = delete;
  EndSignals& operator=(EndSignals const&) = delete;

  bool must_end() {
    if (StopSignal::was_given() && !has_interrupt_) {
      has_interrupt_ = true;
      take(SIGINT, before_interrupt_);
    }
    return ended_by != 0;
  }

 private:
  static void take(int signal, struct sigaction& before) {
    struct sigaction action {};
    action.sa_handler = remember_end;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, &before);
  }

  static constexpr std::array<int, 3> kSignals = {SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, 3> before_{};
  struct sigaction before_interrupt_ {};
  bool has_interrupt_ = false;
};

/// Ends the search when a signal wants this process to end.
class SignalObserver : public SearchObserver {
 public:
  SignalObserver(EndSignals& signals, SearchObserver* next) : signals_(signals), next_(next) {}

  void trial_started(std::int64_t size, TrialPurpose purpose, SearchProgress const& progress) override {
    if (next_ != nullptr) { next_->trial_started(size, purpose, progress); }
  }
  void trial_finished(TrialRecord const& record) override {
    if (next_ != nullptr) { next_->trial_finished(record); }
  }
  bool stop_requested() override { return signals_.must_end() || (next_ != nullptr && next_->stop_requested()); }

 private:
  EndSignals& signals_;
  SearchObserver* next_;
};

/// Images are square: their memory grows with the square of their side. It only ever picks the next trial.
double exponent_of(std::string const& argument) {
  for (auto const* const word : {"img", "image", "resolution", "crop", "input-size", "input_size"}) {
    if (argument.find(word) != std::string::npos) { return 2; }
  }
  return 1;
}

Bytes available_host_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") { return Bytes{kib << 10}; }
  }
  return Bytes{std::int64_t{8} << 30};
}

/// What one trial took at most, of those that have ended.
Bytes resident_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  constexpr std::int64_t kLeast = std::int64_t{3} << 30;  // before one has ended: Python, LibTorch, and a model
  return Bytes{std::max(kLeast, std::int64_t{usage.ru_maxrss} << 10)};
}

/// The card of this machine with this number, of those that CUDA shows us.
std::string visible_device(c10::DeviceIndex index) {
  char const* const said = std::getenv("CUDA_VISIBLE_DEVICES");
  if (said == nullptr) { return std::to_string(index); }
  std::istringstream devices(said);
  std::string device;
  for (int i = 0; i <= index; ++i) {
    if (!std::getline(devices, device, ',')) {
      throw UsageError("--device cuda:" + std::to_string(index) + ": CUDA_VISIBLE_DEVICES is '" + said + "'");
    }
  }
  return device;
}

class ProgramSearch {
 public:
  ProgramSearch(VariedCommand const& command, ProgramSearchOptions const& options)
      : command_(command),
        options_(options),
        knowledge_(options.finder.search, exponent_of(command.name()), options.finder.replay_scouts) {
    trials_.steps = options.finder.steps;
    trials_.to_its_end = options.to_its_end;
    trials_.timeout = options.trial_timeout;
    trials_.temporary_folder = folder_.path();
    auto const is_dry = options.device.kind == DeviceChoice::Kind::dry_card;
    std::optional<Bytes> budget = options.budget;
    if (is_dry) {
      auto const& card = CardCatalogue::built_in().find(options.device.card);
      auto& world = trials_.dry_world.emplace();
      world.card_name = card.name;
      world.card_profile = card_profile_text(card);
      device_.name = card.device_name;
      device_.total = card.total_memory;
      device_.usable = headroom(card.total_memory, card.context.when_training());
      device_.evidence = DeviceEvidence::dry;
      knowledge_.target = whole_card(card);
      knowledge_.limit = budget.value_or(*device_.usable);
    } else {
      trials_.visible_device = visible_device(options.device.index);
      device_.evidence = DeviceEvidence::measured;
      knowledge_.limit = budget;
    }
    if (options.finder.headroom.count > 0) {
      if (!knowledge_.limit) {
        throw UsageError("--headroom on a card of this machine needs --budget, of which it is taken off");
      }
      auto const limit = *knowledge_.limit;
      budget = headroom(limit, options.finder.headroom);
      if (budget->count == 0) { throw UsageError("--headroom leaves nothing of " + to_string(limit)); }
      knowledge_.limit = budget;
    }
    trials_.budget = budget;
    knowledge_.target.limit = budget;
    device_.budget = budget;
    device_.torch_device = c10::Device(c10::kCUDA, 0);
  }

  FinderResult run(SearchObserver* next) {
    SignalObserver signal_observer(signals_, next);
    auto* const observer = &signal_observer;
    ProgramPredictor predictor(knowledge_);
    smallest_ = AllowedSizes(options_.finder.search).at(0);
    FinderResult result;
    result.search = search_largest_batch_size([this](std::int64_t size) { return probe(size); }, options_.finder.search,
                                              &predictor, observer);
    result.device = device_;
    result.headroom = options_.finder.headroom;
    result.steps = options_.finder.steps;
    result.replayed_batch_size = knowledge_.predicted_size();
    result.replay_problem = knowledge_.problem();
    result.warnings = warnings_of(result.search);
    return result;
  }

 private:
  using Running = std::map<TrialKey, std::unique_ptr<ProgramTrial>>;

  static TrialOutcome ended() {
    TrialOutcome outcome;
    outcome.verdict = Verdict::failed;
    outcome.steps = 0;
    outcome.reason = "ended by a signal";
    return outcome;
  }

  TrialOutcome probe(std::int64_t size) {
    TrialKey const key{size, asked_[size]++};
    while (known_.find(key) == known_.end()) {
      keep_busy(key);
      for (auto& [of, trial] : running_) {
        if (trial->is_over_within(kGlance)) { learn(of, *trial); }
      }
      for (auto one = running_.begin(); one != running_.end();) {
        one = known_.count(one->first) > 0 ? running_.erase(one) : std::next(one);
      }
      if (signals_.must_end()) { return ended(); }
    }
    auto const& outcome = known_.at(key);
    if (size == smallest_ && !is_fit(outcome.verdict) && !is_memory_failure(outcome.verdict)) {
      throw ProgramFailed(outcome.reason);
    }
    return outcome;
  }

  /// The trial that is waited for, and beside it those that will probably be asked for.
  void keep_busy(TrialKey const& wanted) {
    if (!must_plan_) { return; }
    must_plan_ = false;
    auto const at_once = trials_at_once();
    std::vector<TrialKey> plan = {wanted};
    if (at_once > 1) {
      // What is waited for comes first of what the search would ask.
      for (auto const& key :
           next_trials(options_.finder.search, known_, knowledge_.limit, predictor_maker(), at_once)) {
        auto const is_planned =
            std::any_of(plan.begin(), plan.end(), [&](auto const& one) { return is_same(one, key); });
        if (!is_planned && plan.size() < at_once) { plan.push_back(key); }
      }
    }
    for (auto one = running_.begin(); one != running_.end();) {
      auto const is_planned =
          std::any_of(plan.begin(), plan.end(), [&](auto const& key) { return is_same(key, one->first); });
      one = is_planned ? std::next(one) : running_.erase(one);
    }
    for (auto const& key : plan) {
      if (running_.count(key) > 0) { continue; }
      auto const records = key.number == 0 && knowledge_.is_wanted(key.size);
      running_.emplace(key, std::make_unique<ProgramTrial>(command_.with(key.size), trials_, records));
    }
  }

  static bool is_same(TrialKey const& a, TrialKey const& b) { return !(a < b) && !(b < a); }

  MakePredictor predictor_maker() const {
    return [this] { return std::make_unique<ProgramPredictor>(knowledge_); };
  }

  std::size_t trials_at_once() const {
    if (!trials_.dry_world) { return 1; }
    if (options_.jobs) { return *options_.jobs; }
    constexpr std::size_t kMost = 4;
    auto const processors = std::max<std::size_t>(1, std::thread::hardware_concurrency());
    auto const more = static_cast<std::size_t>(available_host_memory().count / resident_of_children().count);
    return std::max<std::size_t>(1, std::min({kMost, processors, running_.size() + more}));
  }

  void learn(TrialKey const& key, ProgramTrial const& trial) {
    must_plan_ = true;
    known_[key] = trial.outcome();
    auto const progress = trial.progress();
    if (progress.device_total.count > 0) {
      device_.total = progress.device_total;
      if (!progress.device_name.empty()) { device_.name = progress.device_name; }
      if (progress.context.count > 0) {
        device_.outside_allocator = progress.context;
        device_.usable = headroom(device_.total, progress.context);
      }
      if (!knowledge_.limit) { knowledge_.limit = device_.total; }
    }
    if (trial.records() && knowledge_.is_wanted(key.size)) { learn_recording(key.size, trial); }
    if (progress.has_settled && progress.mark == dry::StepMark::backward) { has_only_backward_ = true; }
    for (auto const& remark : trial.remarks()) {
      if (std::find(remarks_.begin(), remarks_.end(), remark) == remarks_.end()) { remarks_.push_back(remark); }
    }
    if (options_.show) { options_.show("what " + std::to_string(key.size) + " printed last:\n" + trial.last_words()); }
  }

  void learn_recording(std::int64_t size, ProgramTrial const& trial) {
    auto recording = trial.recording();
    if (!trials_.dry_world) {
      // A card that nobody capped has what it had at the end of a step.
      auto& target = knowledge_.target;
      target.device.total_memory = device_.total;
      if (!trials_.budget && recording.usable) { target.limit = recording.usable; }
    }
    knowledge_.learn(size, trial.outcome().verdict, std::move(recording), options_.to_its_end);
  }

  std::vector<std::string> warnings_of(SearchResult const& search) const {
    auto warnings = remarks_;
    for (auto const size : search.spurious_failures) {
      warnings.push_back(std::to_string(size) + " failed once for memory and then passed twice");
    }
    auto const* const answer = search.answer();
    if (answer != nullptr && !answer->outcome.reason.empty()) {
      warnings.push_back("at " + std::to_string(answer->batch_size) + ": " + answer->outcome.reason);
    }
    if (has_only_backward_) {
      warnings.emplace_back(
          "steps were told apart by their backward passes alone, since no optimizer of LibTorch's Python package "
          "stepped: "
          "with gradients accumulated over more than 32 of them, give --to-the-end");
    }
    return warnings;
  }

  VariedCommand const& command_;
  ProgramSearchOptions const& options_;
  EndSignals signals_;  // first: whatever follows is put away before a kept signal goes on
  TemporaryFolder folder_;
  ProgramTrialOptions trials_;
  DeviceDescription device_;
  ProgramKnowledge knowledge_;
  std::int64_t smallest_ = 1;
  KnownTrials known_;
  std::map<std::int64_t, std::size_t> asked_;
  Running running_;
  bool must_plan_ = true;
  bool has_only_backward_ = false;
  std::vector<std::string> remarks_;
};

}  // namespace

FinderResult search_program(VariedCommand const& command, ProgramSearchOptions const& options,
                            SearchObserver* observer) {
  check_program_file(command.with(1).front());
  try {
    return ProgramSearch(command, options).run(observer);
  } catch (process::NoDryWorld const& error) {
    throw UsageError(error.what());
  } catch (process::ProcessNotStarted const& error) { throw UsageError(error.what()); }
}

}  // namespace maxbatch::cli
