#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocator_options.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>
#include <maxbatch/simulation/card.hpp>
#include <maxbatch/simulation/device_address_space.hpp>
#include <maxbatch/simulation/modelled_peak.hpp>
#include <maxbatch/simulation/program_run.hpp>
#include <maxbatch/simulation/trace_scaling.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Where a batch is to fit.
struct PredictionTarget {
  std::optional<Bytes>
      limit;  // on the allocator's reserved bytes, as a memory fraction sets it; none: what the device has
  SimulatedDevice device;
  AllocatorSettings settings;
  DriverPlacement placement;  // its seed does not matter: several are drawn

  /// What reserved bytes can at most be.
  Bytes budget() const;
};

/// The whole of `card`, but for what the driver takes for a process that trains.
PredictionTarget whole_card(Card const& card);

struct PredictionOptions {
  std::int64_t largest_allowed = std::int64_t{1} << 20;
  int draws = kUsualDraws;  // of modelled addresses, where it matters
  /// A program that needed a flush goes on for so many more of its steps, where its marks tell them: a later one may fail.
  std::int64_t further_steps = 0;
};

/// What running the scaled program showed at one batch size.
struct CandidateEvidence {
  std::int64_t batch_size = 0;
  bool workspaces_are_elastic = false;
  bool fits = false;  // in most draws
  ModelledPeak reserved_peak;
  ProgramRun first_draw;
};

struct BatchPrediction {
  /// With every library's workspace as the laws have it. None: nothing fits, not even one sample.
  std::optional<std::int64_t> largest_batch_size;
  /// With libraries doing without workspaces that are refused; the same where none is.
  std::optional<std::int64_t> elastic_largest_batch_size;
  /// The workspace that is refused above `largest_batch_size`, and how much was missing for it.
  std::optional<Bytes> refused_workspace;
  std::optional<Bytes> short_by;
  /// Sizes below the answer that do not fit: memory is not monotone.
  std::vector<std::int64_t> gaps;
  bool is_largest_allowed = false;
  std::vector<CandidateEvidence> candidates;  // by batch size, strict before elastic

  /// Whether the answer is an interval: [largest_batch_size, elastic_largest_batch_size].
  bool is_elastic() const { return elastic_largest_batch_size != largest_batch_size; }
};

/// The largest batch size that fits, by running scaled programs through the allocator's simulator. Sizes whose requests
/// alone sum to more are passed over; from there down, sizes are run until one fits; the answer and the next size are run
/// under several draws of modelled addresses, and most of those decide.
/// Throws: InvalidArgument for a limit below 1, or draws below 1.
BatchPrediction predict_largest_batch(TraceScaling const& scaling, PredictionTarget const& target,
                                      PredictionOptions const& options = {});

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/batch_prediction_inl.hpp>
#endif
