#pragma once

#include <maxbatch/search/errors.hpp>
#include <maxbatch/search/peak_predictor.hpp>
#include <maxbatch/search/search_observer.hpp>
#include <maxbatch/search/search_options.hpp>
#include <maxbatch/search/search_result.hpp>

#include <cstdint>
#include <functional>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Runs one size and says what became of it. All that the search knows of the world.
using Probe = std::function<TrialOutcome(std::int64_t batch_size)>;

/// Finds the largest allowed size that fits, and proves it: scout, predict, bracket, certify.
///
/// Every answer ran. The next allowed size failed twice, with `options.before_retry` in between; a size that fails once
/// and then passes twice counts as fitting ("spurious"). Trials are in a fixed order for the same outcomes.
///
/// An exception of the probe at the smallest allowed size passes through untouched; at larger sizes it bounds the answer
/// like a size limit: its text is the reason, and the proof is `other_limit`, never a memory bound.
///
/// `predictor` (may be null: doubling and bisection) only picks sizes. `observer` may be null.
/// Throws: InvalidArgument for options that contradict each other; StepNeverRan when a fit reports zero steps; whatever
/// the probe throws at the smallest size; whatever the observer throws.
SearchResult search_largest_batch_size(Probe const& probe, SearchOptions const& options = {},
                                       PeakPredictor* predictor = nullptr, SearchObserver* observer = nullptr);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/search/batch_size_search_inl.hpp>
#endif
