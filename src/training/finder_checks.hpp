#pragma once

#include <maxbatch/training/finder_options.hpp>
#include <maxbatch/training/input_size.hpp>
#include <maxbatch/training/state_guard.hpp>

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

/// What a finder refuses before work starts. Each throws InvalidArgument with the value and what to do.
namespace maxbatch::detail {

void check_options(FinderOptions const& options);
void check_preserving(bool is_callers_own_step, bool preserve_nothing, bool nothing_preserved);
void check_order(FinderOptions const& options, bool step_reads_trial);
void check_image_options(InputSizeOptions const& options, bool step_reads_trial);
/// What an optimizer changes must be put back by somebody: `preserve(optimizer)` alone would still train the model.
void check_covered(std::vector<StateGuard::NamedTensor> const& changed,
                   std::vector<StateGuard::NamedTensor> const& kept);
/// Everything a step captured and maxbatch knows of must live where the finder measures.
void check_residence(std::vector<StateGuard::NamedTensor> const& tensors, c10::Device device);

/// The longer side of an image, in whole strides.
std::int64_t longer_side_of(std::int64_t shorter, InputSizeOptions const& options);

}  // namespace maxbatch::detail
