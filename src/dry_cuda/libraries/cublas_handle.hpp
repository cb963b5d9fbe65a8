#pragma once

#include <cublas_api.h>

namespace maxbatch::dry {

/// Whether a call on this handle gives its scalars to the host, not to the card.
bool results_are_on_host(cublasHandle_t handle);

}  // namespace maxbatch::dry
