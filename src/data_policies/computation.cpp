#include "computation.hpp"

#include "known_values.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/contiguous.h>
#include <ATen/ops/copy.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>

namespace maxbatch::dry {

class OurOperators {
 private:
  at::RecordFunctionGuard unseen_{/*is_enabled=*/false};
  at::AutoDispatchBelowADInplaceOrView no_gradients_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

namespace {

/// More would be an optimizer's lists, whose gradients are never known.
constexpr int kMostTensors = 16;

/// Undefined when it is not known.
at::Tensor on_host(at::Tensor const& tensor) {
  if (!known_values::can_be_known(tensor)) { return {}; }
  return tensor.is_cuda() ? known_values::find(tensor) : tensor.is_cpu() ? tensor : at::Tensor();
}

/// The same value with tensors of the host in place of the card's; nothing when one is not known.
std::optional<c10::IValue> on_host(c10::IValue const& value, int& tensors) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) { return value; }
    auto mirror = ++tensors <= kMostTensors ? on_host(value.toTensor()) : at::Tensor();
    if (!mirror.defined()) { return std::nullopt; }
    return mirror;
  }
  // A device is where it would go, and it must not go to the card.
  if (value.isDevice() || value.isGenerator() || value.isStream()) { return std::nullopt; }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (at::Tensor const& tensor : value.toTensorList()) {
      auto mirror = ++tensors <= kMostTensors ? on_host(tensor) : at::Tensor();
      if (!mirror.defined()) { return std::nullopt; }
      list.push_back(mirror);
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (std::optional<at::Tensor> const& tensor : value.toOptionalTensorList()) {
      if (!tensor || !tensor->defined()) {
        list.push_back(tensor);
        continue;
      }
      auto mirror = ++tensors <= kMostTensors ? on_host(*tensor) : at::Tensor();
      if (!mirror.defined()) { return std::nullopt; }
      list.push_back(mirror);
    }
    return list;
  }
  return value;
}

std::vector<at::Tensor> tensors_of(std::vector<c10::IValue> const& values) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(values, [&](std::size_t, at::Tensor const& tensor) { tensors.push_back(tensor); });
  return tensors;
}

}  // namespace

std::optional<std::vector<c10::IValue>> compute_from_known(OperatorFacts const& facts,
                                                           c10::ArrayRef<c10::IValue const> inputs) {
  if (!facts.computable || c10::impl::tls_local_dispatch_key_set().included_.has(c10::DispatchKey::Python)) {
    return std::nullopt;
  }
  std::vector<c10::IValue> stack;
  stack.reserve(inputs.size());
  auto tensors = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // What is only filled need not be known.
    if (i == 0 && facts.overwrites_self) {
      stack.emplace_back(at::Tensor());
      continue;
    }
    auto value = on_host(inputs[i], tensors);
    if (!value) { return std::nullopt; }
    stack.push_back(std::move(*value));
  }
  if (facts.overwrites_self) {
    auto const& self = inputs[0].toTensor();
    if (!self.is_cuda() || !known_values::can_be_known(self)) { return std::nullopt; }
    auto mirror = known_values::find(self);
    if (!mirror.defined()) { mirror = known_values::make(self); }
    if (!mirror.defined()) { return std::nullopt; }
    stack[0] = mirror;
  }
  OurOperators const ours;
  try {
    facts.handle->callBoxed(stack);
  } catch (std::exception const&) {  // whatever it was, the real operator will say it
    return std::nullopt;
  }
  return stack;
}

void keep_results(std::vector<c10::IValue> const& computed, std::vector<c10::IValue> const& outputs) {
  auto const results = tensors_of(computed);
  auto const real = tensors_of(outputs);
  if (results.size() != real.size()) { return; }
  OurOperators const ours;
  for (std::size_t i = 0; i < real.size(); ++i) {
    if (!real[i].is_cuda() || !known_values::can_be_known(real[i])) { continue; }
    auto const same = results[i].sizes() == real[i].sizes() && results[i].scalar_type() == real[i].scalar_type();
    if (!same) {
      known_values::forget(real[i]);
      continue;
    }
    auto mirror = known_values::make(real[i]);
    if (mirror.defined()) { mirror.copy_(results[i]); }
  }
}

std::optional<std::string> known_bytes_for(at::Tensor const& source, at::Tensor const& destination) {
  if (!known_values::can_be_known(source)) { return std::nullopt; }
  auto mirror = known_values::find(source);
  if (!mirror.defined()) { return std::nullopt; }
  OurOperators const ours;
  mirror = mirror.to(destination.scalar_type());
  // Bytes go over as they lie where both sides lie alike, and in the order of their indices otherwise.
  if (!(mirror.is_non_overlapping_and_dense() && mirror.strides() == destination.strides())) {
    mirror = mirror.contiguous();
  }
  return std::string(static_cast<char const*>(mirror.const_data_ptr()), mirror.nbytes());
}

}  // namespace maxbatch::dry
