#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace maxbatch::dry {

/// Fills `bytes` at `host` with elements of `type` that are all `value`. False when the size is no multiple of theirs, or the
/// type has no such values.
bool put_value(void* host, std::size_t bytes, at::ScalarType type, double value);
/// One integer of 1, 4 or 8 bytes. False for other sizes.
bool put_integer(void* host, std::size_t bytes, std::int64_t value);
/// The first element, for a report; 0 where there is none.
double value_of(std::string const& bytes, at::ScalarType type);

}  // namespace maxbatch::dry
