#pragma once

namespace maxbatch::detail {

/// Whether the calling thread is asking the caching allocator for the workspace of a cuDNN convolution, and for nothing
/// else of it. To be asked from an out-of-memory observer.
///
/// LibTorch's convolutions catch the failure of a workspace and go on to a plan with a smaller one (Conv_v8.cpp), so such
/// a refusal is no failure of the step; that of an output tensor of the same operator is. Neither the event nor the
/// observer's arguments tell them apart, but the call stack does: both have a convolution's exported function on it, and
/// only the output's also passes through `at::detail::empty_…`.
/// Costs some tens of microseconds, and only where memory has run out.
bool wants_convolution_workspace() noexcept;

}  // namespace maxbatch::detail
