#pragma once

#include <ATen/core/Tensor.h>

namespace maxbatch::dry {

/// Small tensors on the card whose values are known, since they came from the host or were computed from such: a mirror in
/// host memory for each. A mirror belongs to a storage and ends with it, so memory that the caching allocator gives to
/// somebody else is never mistaken; it keeps no device memory alive.
/// Threads: any.
namespace known_values {

/// Whether the tensor is of the plain kind that can have a mirror, and small enough.
bool can_be_known(at::Tensor const& tensor);

/// The same view of the mirror, on the CPU; undefined when its values are not known.
at::Tensor find(at::Tensor const& tensor);

/// Makes a mirror, its contents to be filled in, and returns the same view of it; undefined when the tensor is not all of
/// its storage.
at::Tensor make(at::Tensor const& tensor);

/// Something unknown was written there.
void forget(at::Tensor const& tensor);
void forget_all();

}  // namespace known_values
}  // namespace maxbatch::dry
