#include "program_predictor.hpp"

#include "training/scout_choice.hpp"
#include <maxbatch/simulation/allocator_settings.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace maxbatch::cli {
namespace {

/// Steps that a recording is cut to: of two optimizers in turn each has stepped several times.
constexpr std::int64_t kMostSteps = 12;
constexpr std::int64_t kFewestSteps = 2;

}  // namespace

ProgramKnowledge::ProgramKnowledge(SearchOptions const& search, double exponent, bool wants_recordings)
    : exponent_(exponent) {
  if (!wants_recordings || exponent != 1) { return; }
  wanted_ = detail::sizes_to_record(search);
  if (wanted_.size() < 2) { wanted_.clear(); }
}

bool ProgramKnowledge::is_wanted(std::int64_t size) const {
  return std::find(wanted_.begin(), wanted_.end(), size) != wanted_.end();
}

void ProgramKnowledge::learn(std::int64_t size, Verdict verdict, ProgramRecording recording, bool whole) {
  wanted_.erase(std::remove(wanted_.begin(), wanted_.end(), size), wanted_.end());
  auto const of = "the trial of " + std::to_string(size);
  if (verdict != Verdict::fits) { return give_up(of + ": " + std::string(to_string(verdict))); }
  if (!recording.problem.empty()) { return give_up(of + ": " + recording.problem); }
  if (recording.is_cut && (whole || recording.steps < kFewestSteps)) {
    return give_up(of + " made more than " + std::to_string(dry::EventPage::kEvents) + " allocator events");
  }
  recordings_.emplace_back(size, std::move(recording));
  if (recordings_.size() == 2) { predict(whole); }
}

void ProgramKnowledge::give_up(std::string problem) {
  problem_ = std::move(problem);
  wanted_.clear();
  recordings_.clear();
}

void ProgramKnowledge::predict(bool whole) {
  auto const& [smaller, larger] = std::minmax(recordings_.front(), recordings_.back(),
                                              [](auto const& a, auto const& b) { return a.first < b.first; });
  // The same number of steps of both: a further one would look like more of the batch.
  auto const steps = std::min({smaller.second.steps, larger.second.steps, kMostSteps});
  auto const has_steps = !whole && steps >= kFewestSteps;
  auto where = target;
  try {
    where.settings = parse_allocator_settings(smaller.second.trace.allocator_settings);
    auto replay = std::make_shared<ReplayPredictor>(
        where, nullptr,
        detail::scaling_on_same_card(smaller.second.multiprocessors, smaller.second.threads_per_multiprocessor),
        detail::search_prediction_options());
    for (auto const* const one : {&smaller, &larger}) {
      replay->add_recording(one->first, has_steps ? first_steps_of(one->second, steps) : one->second.trace);
    }
    auto const predicts = replay->prediction().has_value();
    problem_ = predicts ? "" : replay->problem();
    if (predicts) { replay_ = std::move(replay); }
  } catch (std::exception const& error) { problem_ = error.what(); }
  recordings_.clear();
}

std::optional<std::int64_t> ProgramKnowledge::predicted_size() const {
  return replay_ ? replay_->prediction()->elastic_largest_batch_size : std::nullopt;
}

void ProgramPredictor::observe(TrialRecord const& record) {
  catch_up();
  seen_.push_back(record);
  if (lines_) { lines_->observe(record); }
  if (replay_) { replay_->observe(record); }
}

std::optional<Prediction> ProgramPredictor::predict() const {
  catch_up();
  auto const replayed = replay_ ? replay_->predict() : std::nullopt;
  return replayed || !lines_ ? replayed : lines_->predict();
}

std::vector<std::int64_t> ProgramPredictor::scouts() const {
  auto sizes = knowledge_.wanted();
  auto const was_seen = [this](std::int64_t size) {
    return std::any_of(seen_.begin(), seen_.end(), [size](auto const& record) { return record.batch_size == size; });
  };
  sizes.erase(std::remove_if(sizes.begin(), sizes.end(), was_seen), sizes.end());
  return sizes;
}

void ProgramPredictor::catch_up() const {
  if (!lines_ && knowledge_.limit) {
    lines_.emplace(*knowledge_.limit, knowledge_.exponent());
    for (auto const& record : seen_) { lines_->observe(record); }
  }
  if (!replay_ && knowledge_.replay()) {
    replay_.emplace(*knowledge_.replay());
    for (auto const& record : seen_) { replay_->observe(record); }
  }
}

}  // namespace maxbatch::cli
