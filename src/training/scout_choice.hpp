#pragma once

#include <maxbatch/search/search_options.hpp>
#include <maxbatch/simulation/batch_prediction.hpp>
#include <maxbatch/simulation/trace_scaling.hpp>

#include <cstdint>
#include <vector>

namespace maxbatch::detail {

/// What a search records to predict its answer, in this process or in others: the two smallest allowed sizes from 2 on, since at
/// one sample programs often make other requests than at several. Fewer where there are fewer.
std::vector<std::int64_t> sizes_to_record(SearchOptions const& search);

/// How recordings are scaled where the card that they are from is the one that is predicted. 0: not known.
ScalingOptions scaling_on_same_card(int multiprocessors, int threads_per_multiprocessor);

/// What a search can afford for a prediction: few draws, and as many further steps under pressure as were seen to go well before
/// one failed or all repeated.
PredictionOptions search_prediction_options();

}  // namespace maxbatch::detail
