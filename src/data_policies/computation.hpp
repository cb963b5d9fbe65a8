#pragma once

#include "operator_facts.hpp"

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

namespace maxbatch::dry {

/// What the operator gives for these arguments, computed by the CPU's kernel over mirrors of those tensors that are on the
/// card; what it writes, it writes into the mirrors. Nothing when a tensor is not known, or the CPU cannot do it.
std::optional<std::vector<c10::IValue>> compute_from_known(OperatorFacts const& facts,
                                                           c10::ArrayRef<c10::IValue const> inputs);

/// The results of compute_from_known become known of the operator's own results.
void keep_results(std::vector<c10::IValue> const& computed, std::vector<c10::IValue> const& outputs);

/// The bytes that a copy of a known tensor to `destination` on the host brings; nothing when it is not known.
std::optional<std::string> known_bytes_for(at::Tensor const& source, at::Tensor const& destination);

/// Calls `visit` with the index of the argument and each tensor in it, as far as there are any; undefined ones are left out.
template <typename Values, typename Visit>
void for_each_tensor(Values const& values, Visit const& visit) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto const& value = values[i];
    if (value.isTensor()) {
      if (value.toTensor().defined()) { visit(i, value.toTensor()); }
    } else if (value.isList()) {
      for (auto const& element : value.toListRef()) {
        if (!element.isTensor()) { break; }
        if (element.toTensor().defined()) { visit(i, element.toTensor()); }
      }
    }
  }
}

}  // namespace maxbatch::dry
