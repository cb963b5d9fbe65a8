#pragma once

#include <cstdint>

namespace maxbatch::dry {

/// Where the workspace of a convolution's plan came from.
enum class ConvolutionSource { recorded, planned };

/// Counts an answer, for the report. Any thread.
void count_convolution_workspace(ConvolutionSource source) noexcept;

std::int64_t convolution_workspaces(ConvolutionSource source) noexcept;

}  // namespace maxbatch::dry
