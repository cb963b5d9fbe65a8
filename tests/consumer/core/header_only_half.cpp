#include "search_both.hpp"
#include <maxbatch/search/batch_size_search.hpp>

#if defined(MAXBATCH_COMPILED_LIB)
#error "maxbatch::core_header_only passes on the define of maxbatch::core"
#endif

std::int64_t largest_by_header_only_core(std::int64_t largest_fitting) {
  auto const probe = [largest_fitting](std::int64_t batch_size) {
    return batch_size <= largest_fitting ? maxbatch::TrialOutcome::fits() : maxbatch::TrialOutcome::out_of_memory();
  };
  return maxbatch::search_largest_batch_size(probe, maxbatch::SearchOptions{}).batch_size.value_or(0);
}
