#pragma once

#include <cstdint>

namespace maxbatch::dry {

// Note [Order without time]
// Work is finished the moment it is submitted, so one count of work submitted is the order of everything on all streams,
// and stands for time: a microsecond each. Events stamp themselves with it, and what lies between two events is in order
// and never the same twice, but says nothing about speed.

/// Counts a piece of work: a copy, a launch, an event.
std::uint64_t note_work() noexcept;

}  // namespace maxbatch::dry
