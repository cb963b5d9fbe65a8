#pragma once

#include <maxbatch/search/errors.hpp>
#include <maxbatch/simulation/batch_prediction.hpp>
#include <maxbatch/simulation/repeated_steps.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Looks for the largest size in one of the two worlds: workspaces as recorded, or elastic.
class BoundarySearch {
 public:
  BoundarySearch(TraceScaling const& scaling, PredictionTarget const& target, PredictionOptions const& options,
                 bool elastic)
      : scaling_(scaling), target_(target), options_(options), elastic_(elastic) {}

  std::optional<std::int64_t> find() {
    auto const bound = largest_by_requests();
    if (bound == 0) { return std::nullopt; }
    auto found = largest_by_one_draw(bound);
    // Most draws decide, and the next sizes are looked at, too.
    while (found > 0 && !by_most_draws(found)) { --found; }
    constexpr std::int64_t look_above = 2;  // memory is not monotone; as far as the search itself looks
    for (auto above = found + 1; above <= std::min(bound, found + look_above); ++above) {
      auto const next_fails = above == found + 1;
      if ((next_fails || by_one_draw(above)) && by_most_draws(above)) { found = above; }
    }
    return found > 0 ? std::optional(found) : std::nullopt;
  }

  /// One run, if there was none.
  CandidateEvidence const& look_at(std::int64_t batch_size) {
    by_one_draw(batch_size);
    return evidence_.at(batch_size);
  }

  std::map<std::int64_t, CandidateEvidence> const& evidence() const { return evidence_; }

 private:
  struct Scaled {
    AllocationProgram program;
    DriverEvents events;
  };

  bool requests_exceed(std::int64_t batch_size) const {
    return least_peak(scaling_.at(batch_size), elastic_) > target_.budget();
  }

  /// The largest size whose live requests never sum to more than the budget; 0: none.
  std::int64_t largest_by_requests() const {
    if (requests_exceed(1)) { return 0; }
    auto fits = std::int64_t{1};
    auto exceeds = options_.largest_allowed + 1;
    // Memory is nearly a line in the batch size: aim at where it crosses the budget, then halve.
    auto const first = scaling_.recordings().back().batch_size;
    auto const second = 2 * first;
    auto const at_first = least_peak(scaling_.at(first), elastic_).count;
    auto const slope = (least_peak(scaling_.at(second), elastic_).count - at_first) / first;
    if (slope > 0) {
      auto const aim = first + (target_.budget().count - at_first) / slope;
      for (std::int64_t const width : {1, 8, 64}) {
        for (auto const guess : {aim - width, aim + width}) {
          if (guess <= fits || guess >= exceeds) { continue; }
          (requests_exceed(guess) ? exceeds : fits) = guess;
        }
        if (exceeds - fits <= 2 * width) { break; }
      }
    }
    while (exceeds - fits > 1) {
      auto const middle = fits + (exceeds - fits) / 2;
      (requests_exceed(middle) ? exceeds : fits) = middle;
    }
    return fits;
  }

  /// From `bound` down by growing strides until one fits, then between that and the last that did not.
  std::int64_t largest_by_one_draw(std::int64_t bound) {
    auto fails = bound + 1;
    std::int64_t fits = 0;
    for (std::int64_t stride = 1; fails > 1; stride *= 2) {
      auto const at = std::max<std::int64_t>(fails - stride, 1);
      if (by_one_draw(at)) {
        fits = at;
        break;
      }
      fails = at;
    }
    while (fails - fits > 1) {
      auto const middle = fits + (fails - fits) / 2;
      (by_one_draw(middle) ? fits : fails) = middle;
    }
    return fits;
  }

  Scaled scaled(std::int64_t batch_size) const {
    Scaled result{scaling_.at(batch_size), {}};
    result.events = driver_events_of(result.program, scaling_.first_sample_request());
    return result;
  }

  ProgramRun run(Scaled const& scaled, std::uint64_t seed) const {
    ProgramRunOptions options;
    options.settings = target_.settings;
    options.device = target_.device;
    options.limit = target_.limit;
    options.workspaces_are_elastic = elastic_;
    options.placement = target_.placement;
    options.placement.seed = seed;
    auto const result = run_program(scaled.program, scaled.events, options);
    if (!result.fits || result.retries == 0 || options_.further_steps == 0) { return result; }
    return run_program(with_further_steps(scaled.program, options_.further_steps), scaled.events, options);
  }

  CandidateEvidence& candidate(std::int64_t batch_size) {
    auto& candidate = evidence_[batch_size];
    candidate.batch_size = batch_size;
    candidate.workspaces_are_elastic = elastic_;
    return candidate;
  }

  bool by_one_draw(std::int64_t batch_size) {
    auto& evidence = candidate(batch_size);
    if (evidence.reserved_peak.draws > 0) { return evidence.fits; }
    evidence.first_draw = run(scaled(batch_size), /*seed=*/1);
    evidence.fits = evidence.first_draw.fits;
    auto& peak = evidence.reserved_peak;
    peak.draws = 1;
    peak.out_of_memory = evidence.fits ? 0 : 1;
    if (evidence.fits) { peak.most_frequent = peak.lowest = peak.highest = evidence.first_draw.reserved_peak; }
    return evidence.fits;
  }

  bool by_most_draws(std::int64_t batch_size) {
    by_one_draw(batch_size);
    auto& evidence = candidate(batch_size);
    if (evidence.reserved_peak.draws >= options_.draws) { return evidence.fits; }
    auto const program = scaled(batch_size);
    evidence.reserved_peak = modelled_peak(
        [&](std::uint64_t seed) -> std::optional<Bytes> {
          auto const result = seed == 1 ? evidence.first_draw : run(program, seed);
          return result.fits ? std::optional(result.reserved_peak) : std::nullopt;
        },
        options_.draws);
    evidence.fits = evidence.reserved_peak.fits();
    return evidence.fits;
  }

  TraceScaling const& scaling_;
  PredictionTarget const& target_;
  PredictionOptions const& options_;
  bool elastic_;
  std::map<std::int64_t, CandidateEvidence> evidence_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE Bytes PredictionTarget::budget() const {
  auto const device_has = headroom(device.total_memory, device.outside_memory);
  return limit && *limit < device_has ? *limit : device_has;
}

MAXBATCH_INLINE PredictionTarget whole_card(Card const& card) {
  PredictionTarget target;
  target.device.total_memory = card.total_memory;
  target.device.outside_memory = card.context.when_training();
  target.placement.local_memory = card.context.local_memory;
  target.placement.grown_local_memory = card.context.grown_local_memory;
  return target;
}

MAXBATCH_INLINE BatchPrediction predict_largest_batch(TraceScaling const& scaling, PredictionTarget const& target,
                                                      PredictionOptions const& options) {
  if (target.budget().count < 1) {
    throw InvalidArgument("the budget is " + to_string(target.budget()) + "; it must be at least 1 byte");
  }
  if (options.draws < 1) {
    throw InvalidArgument("draws is " + std::to_string(options.draws) + "; it must be at least 1");
  }
  detail::require_at_least_one(options.largest_allowed, "largest allowed batch size");

  BatchPrediction prediction;
  auto const take = [&](std::map<std::int64_t, CandidateEvidence> const& evidence) {
    for (auto const& [batch_size, candidate] : evidence) { prediction.candidates.push_back(candidate); }
  };
  detail::BoundarySearch strict(scaling, target, options, /*elastic=*/false);
  prediction.largest_batch_size = strict.find();
  prediction.elastic_largest_batch_size = prediction.largest_batch_size;
  take(strict.evidence());

  auto const& requests = scaling.recordings().back().program.requests;
  if (std::any_of(requests.begin(), requests.end(), [](auto const& request) { return request.is_workspace; })) {
    detail::BoundarySearch elastic(scaling, target, options, /*elastic=*/true);
    auto const found = elastic.find();
    if (found && found > prediction.largest_batch_size) {
      // The workspace that the next size has to do without, and what was missing for it.
      auto const next = elastic.look_at(prediction.largest_batch_size.value_or(0) + 1);
      prediction.elastic_largest_batch_size = found;
      if (next.first_draw.refused) {
        auto const& refused = *next.first_draw.refused;
        prediction.refused_workspace = refused.requested;
        prediction.short_by = headroom(Bytes{refused.reserved.count + refused.segment_size.count}, target.budget());
      }
    }
    take(elastic.evidence());
    std::stable_sort(prediction.candidates.begin(), prediction.candidates.end(),
                     [](auto const& a, auto const& b) { return a.batch_size < b.batch_size; });
  }
  for (auto const& candidate : prediction.candidates) {
    if (!candidate.workspaces_are_elastic && !candidate.fits && prediction.largest_batch_size &&
        candidate.batch_size < *prediction.largest_batch_size) {
      prediction.gaps.push_back(candidate.batch_size);
    }
  }
  prediction.is_largest_allowed = prediction.largest_batch_size == options.largest_allowed;
  return prediction;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
