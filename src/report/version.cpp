#include <maxbatch/report/version.hpp>

#include <torch/version.h>

namespace maxbatch {

std::string_view version() { return MAXBATCH_VERSION; }
std::string_view libtorch_version() { return TORCH_VERSION; }

}  // namespace maxbatch
