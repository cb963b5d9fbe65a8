#pragma once

#include "state_guard_storages.hpp"
#include <maxbatch/training/state_guard.hpp>

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace maxbatch::detail {

/// Where a tensor's values lie and how autograd sees it; not the values themselves.
class TensorPlace {
 public:
  explicit TensorPlace(at::Tensor tensor);

  at::Tensor const& tensor() const { return tensor_; }
  /// Undoes `set_data`, `resize_`, `requires_grad_`, and a history that an in-place operation gave to a leaf.
  /// Allocates nothing.
  void restore() const;

 private:
  bool moved() const;

  at::Tensor tensor_;
  at::Tensor original_;  ///< storage, geometry and type of the beginning, sharing neither history nor version
  bool requires_grad_;
  bool is_leaf_;
};

/// A gradient as it was when the search began.
class Gradient {
 public:
  /// Adds the gradient's storage to `storages` if the same tensor has to come back.
  /// Throws: InvalidArgument if it could not come back.
  Gradient(std::string const& name, at::Tensor const& gradient, StorageSnapshots& storages);

  /// Defined if somebody else sees the gradient too: then it stays alive, and this very tensor comes back.
  at::Tensor kept() const { return kept_ ? kept_->tensor() : at::Tensor(); }
  void restore_structure() const;
  /// After `StorageSnapshots::restore`. Allocates on the device, unless the tensor was kept.
  void attach_to(at::Tensor const& owner) const;

 private:
  at::Tensor recreate() const;

  std::optional<TensorPlace> kept_;
  std::optional<HostBytes> bytes_;
  at::TensorOptions options_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> strides_;
  std::int64_t storage_offset_ = 0;
};

/// Tensors with all that hangs on each: values, geometry, requires_grad, and the gradient.
class TensorSnapshots {
 public:
  /// A tensor that was added before, or is undefined, is passed over.
  /// Throws: InvalidArgument, naming the tensor, if its values could not be put back.
  void add(std::string name, at::Tensor const& tensor);

  void restore_structure() const;
  void restore_values() const;
  std::vector<StateGuard::NamedTensor> resident_tensors() const;

 private:
  struct Entry {
    std::string name;
    TensorPlace place;
    std::optional<Gradient> gradient;
  };
  std::vector<Entry> entries_;
  std::unordered_set<c10::TensorImpl*> known_;
  StorageSnapshots storages_;
};

/// Allocates nothing; no warning about tensors that are no leaves.
void drop_gradient(at::Tensor const& tensor);

}  // namespace maxbatch::detail
