#pragma once

#include <cstdint>

std::int64_t largest_by_compiled_core(std::int64_t largest_fitting);
std::int64_t largest_by_header_only_core(std::int64_t largest_fitting);
