#pragma once

#include "../training/json_values.hpp"
#include <maxbatch/training/speed.hpp>

#include <string>

namespace maxbatch::report {

/// Three digits that mean something, and no exponent.
std::string three_digits(double value);

/// {"training_knee", "inference_knee", "latency", "sizes"}
detail::Json speed_to_json(SpeedResult const& speed);

}  // namespace maxbatch::report
