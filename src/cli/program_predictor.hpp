#pragma once

#include "program_recording.hpp"
#include <maxbatch/search/peak_predictor.hpp>
#include <maxbatch/search/phase_line_predictor.hpp>
#include <maxbatch/search/search_options.hpp>
#include <maxbatch/simulation/batch_prediction.hpp>
#include <maxbatch/training/replay_predictor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch::cli {

/// What is known of a program for predictions: how much memory there is, and what its allocator did in two small trials.
class ProgramKnowledge {
 public:
  /// `exponent`: with which power of the number memory grows. Recordings are scaled for 1 alone.
  ProgramKnowledge(SearchOptions const& search, double exponent, bool wants_recordings);

  /// Where a number no longer fits; none: not known yet. Recordings are run through the allocator's simulator on `target`.
  std::optional<Bytes> limit;
  PredictionTarget target;

  double exponent() const { return exponent_; }
  /// Numbers that a recording is wanted of.
  std::vector<std::int64_t> const& wanted() const { return wanted_; }
  bool is_wanted(std::int64_t size) const;
  /// What the trial of a wanted number did. Where that was no clean fit, or cannot be used, nothing is recorded any more.
  /// `whole`: until the program's end, whatever its steps.
  void learn(std::int64_t size, Verdict verdict, ProgramRecording recording, bool whole);

  /// With all recordings, and what they predict made already; null: there is none.
  std::shared_ptr<ReplayPredictor const> const& replay() const { return replay_; }
  std::optional<std::int64_t> predicted_size() const;
  /// Why there is none; empty: there is, or it is not asked for, or not yet.
  std::string const& problem() const { return problem_; }

 private:
  void give_up(std::string problem);
  void predict(bool whole);

  double exponent_;
  std::vector<std::int64_t> wanted_;
  std::vector<std::pair<std::int64_t, ProgramRecording>> recordings_;
  std::shared_ptr<ReplayPredictor const> replay_;
  std::string problem_;
};

/// Points where the recordings do, as soon as there are two, else where lines through the peaks of each phase do.
class ProgramPredictor : public PeakPredictor {
 public:
  /// `knowledge` outlives it, and may grow meanwhile.
  explicit ProgramPredictor(ProgramKnowledge const& knowledge) : knowledge_(knowledge) {}

  void observe(TrialRecord const& record) override;
  std::optional<Prediction> predict() const override;
  std::vector<std::int64_t> scouts() const override;

 private:
  void catch_up() const;

  ProgramKnowledge const& knowledge_;
  std::vector<TrialRecord> seen_;
  // Made when there is something to make them of, and told then what was seen before.
  mutable std::optional<PhaseLinePredictor> lines_;
  mutable std::optional<ReplayPredictor> replay_;
};

}  // namespace maxbatch::cli
