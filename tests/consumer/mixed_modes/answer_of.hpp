#pragma once

#include <maxbatch/search/search_result.hpp>

#include <cstdint>

std::int64_t answer_of(maxbatch::SearchResult const& result);
