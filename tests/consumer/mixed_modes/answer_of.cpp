#include "answer_of.hpp"

std::int64_t answer_of(maxbatch::SearchResult const& result) { return result.batch_size.value_or(0); }
