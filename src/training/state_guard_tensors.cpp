#include "state_guard_tensors.hpp"

#include "state_guard_run_all.hpp"
#include <maxbatch/search/errors.hpp>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>

#include <utility>

namespace maxbatch::detail {
namespace {

/// `Tensor::grad` warns about tensors that are no leaves; `mutable_grad` gives a plain tensor autograd's bookkeeping.
at::Tensor const& gradient_of(at::Tensor const& tensor) { return tensor.unsafeGetTensorImpl()->grad(); }

bool has_plain_storage(at::Tensor const& tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_nested() && tensor.has_storage();
}

void require_restorable(std::string const& name, at::Tensor const& tensor) {
  auto const refuse = [&](std::string const& why) {
    throw InvalidArgument("maxbatch cannot preserve the tensor \"" + name + "\": " + why);
  };
  if (tensor.is_meta()) { refuse("it is on the meta device and has no values to put back."); }
  if (tensor.layout() != at::kStrided) {
    refuse(c10::str("its layout is ", tensor.layout(),
                    ", and only strided tensors can be put back in place. Preserve what it is made of "
                    "(indices and values) instead, or write a make_state_guard for what holds it."));
  }
  if (!has_plain_storage(tensor)) {
    refuse("it is nested, or has no storage of its own. Write a make_state_guard for what holds it.");
  }
}

/// Nothing but bytes and a geometry, as LibTorch makes them by default: no lazy conjugate or negation, no history, no
/// quantizer, no subclass.
bool is_plain(at::Tensor const& tensor) {
  return has_plain_storage(tensor) && !tensor.requires_grad() &&
         at::empty({0}, tensor.options()).key_set() == tensor.key_set();
}

/// The owner's reference aside. A storage without an allocator lies in memory that somebody else gave (from_blob).
bool is_seen_by_others(at::Tensor const& tensor) {
  if (tensor.use_count() != 1 || tensor.weak_use_count() != 1) { return true; }
  return has_plain_storage(tensor) && (tensor.storage().use_count() != 1 || tensor.storage().allocator() == nullptr);
}

/// A graph that saved the tensor during a trial must not be run backward with other values. Inference tensors count no
/// versions.
void bump_version(at::Tensor const& tensor) {
  if (!tensor.is_inference()) { tensor.unsafeGetTensorImpl()->bump_version(); }
}

}  // namespace

void drop_gradient(at::Tensor const& tensor) {
  if (gradient_of(tensor).defined()) { tensor.mutable_grad().reset(); }
}

TensorPlace::TensorPlace(at::Tensor tensor)
    : tensor_(std::move(tensor)),
      original_(tensor_.variable_data()),
      requires_grad_(tensor_.requires_grad()),
      is_leaf_(tensor_.is_leaf()) {}

bool TensorPlace::moved() const {
  if (!tensor_.has_storage() || !tensor_.storage().is_alias_of(original_.storage())) { return true; }
  return tensor_.dtype() != original_.dtype() || tensor_.storage_offset() != original_.storage_offset() ||
         tensor_.sizes() != original_.sizes() || tensor_.strides() != original_.strides();
}

void TensorPlace::restore() const {
  // The history holds the activations of the step that gave it.
  if (is_leaf_ && !tensor_.is_leaf() && !tensor_.is_view()) { tensor_.detach_(); }
  if (moved()) { tensor_.set_data(original_); }
  if (tensor_.is_leaf() && tensor_.requires_grad() != requires_grad_) { tensor_.set_requires_grad(requires_grad_); }
}

Gradient::Gradient(std::string const& name, at::Tensor const& gradient, StorageSnapshots& storages) {
  bool const shared = is_seen_by_others(gradient);
  if (!shared && is_plain(gradient)) {
    bytes_.emplace(gradient.storage());
    options_ = gradient.options();
    sizes_ = gradient.sizes().vec();
    strides_ = gradient.strides().vec();
    storage_offset_ = gradient.storage_offset();
    return;
  }
  // What nobody else sees cannot change once it is detached from its owner: keeping it is enough.
  if (shared) {
    require_restorable(name, gradient);
    storages.add(gradient.storage());
  }
  kept_.emplace(gradient);
}

void Gradient::restore_structure() const {
  if (kept_ && has_plain_storage(kept_->tensor())) { kept_->restore(); }
}

at::Tensor Gradient::recreate() const {
  at::AutoDispatchBelowAutograd const no_autograd;
  auto const bytes = at::empty({static_cast<std::int64_t>(bytes_->size())}, options_.dtype(at::kByte));
  bytes_->copy_to(bytes.storage());
  return at::empty({0}, options_).set_(bytes.storage(), storage_offset_, sizes_, strides_);
}

void Gradient::attach_to(at::Tensor const& owner) const {
  if (kept_) { bump_version(kept_->tensor()); }
  owner.mutable_grad() = kept_ ? kept_->tensor() : recreate();
}

void TensorSnapshots::add(std::string name, at::Tensor const& tensor) {
  if (!tensor.defined() || known_.count(tensor.unsafeGetTensorImpl()) != 0) { return; }
  require_restorable(name, tensor);
  std::optional<Gradient> gradient;
  if (auto const& defined = gradient_of(tensor); defined.defined()) {
    gradient.emplace(name + ".grad", defined, storages_);
  }
  storages_.add(tensor.storage());
  entries_.push_back(Entry{std::move(name), TensorPlace(tensor), std::move(gradient)});
  known_.insert(tensor.unsafeGetTensorImpl());
}

void TensorSnapshots::restore_structure() const {
  RunAll run;
  for (auto const& entry : entries_) {
    run([&entry] {
      drop_gradient(entry.place.tensor());
      entry.place.restore();
      if (entry.gradient) { entry.gradient->restore_structure(); }
    });
  }
  run.finish();
}

void TensorSnapshots::restore_values() const {
  RunAll run;
  run([this] { restore_structure(); });
  run([this] { storages_.restore(); });
  for (auto const& entry : entries_) { bump_version(entry.place.tensor()); }
  // Last, since only this allocates.
  for (auto const& entry : entries_) {
    run([&entry] {
      if (entry.gradient) { entry.gradient->attach_to(entry.place.tensor()); }
    });
  }
  run.finish();
}

std::vector<StateGuard::NamedTensor> TensorSnapshots::resident_tensors() const {
  std::vector<StateGuard::NamedTensor> tensors;
  for (auto const& entry : entries_) {
    tensors.push_back({entry.name, entry.place.tensor()});
    if (entry.gradient && entry.gradient->kept().defined()) {
      tensors.push_back({entry.name + ".grad", entry.gradient->kept()});
    }
  }
  return tensors;
}

}  // namespace maxbatch::detail
