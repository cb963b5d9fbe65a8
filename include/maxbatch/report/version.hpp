#pragma once

#include <string_view>

namespace maxbatch {

/// "0.1.0"
std::string_view version();
/// Of the LibTorch that maxbatch was compiled with: "2.11.0"
std::string_view libtorch_version();

}  // namespace maxbatch
