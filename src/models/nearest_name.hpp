#pragma once

#include <maxbatch/impl/nearest_name.hpp>

namespace maxbatch {

using detail::edit_distance;
using detail::nearest_name;

}  // namespace maxbatch
