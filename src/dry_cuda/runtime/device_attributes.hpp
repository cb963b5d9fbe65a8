#pragma once

#include <optional>

namespace maxbatch::dry {

/// What cudaDeviceGetAttribute and cuDeviceGetAttribute answer (their numbers agree); nothing for an unknown attribute.
std::optional<int> device_attribute(int attribute, int device);

}  // namespace maxbatch::dry
