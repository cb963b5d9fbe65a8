#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch::dry {

/// What an operator asks of data, if anything: which copies from device to host it makes, and what they decide.
enum class Asks {
  nothing,
  nonzero,
  unique,
  unique_dim,
  nms,
  item,
  copy,
  repeat_interleave,
  multinomial,
  bincount,
  coalesce
};

/// What about an operator never changes.
struct OperatorFacts {
  std::string name;  ///< with its namespace, without its overload
  Asks asks = Asks::nothing;
  std::vector<std::size_t> written;  ///< arguments that it writes
  bool only_views = false;           ///< its results are its arguments' memory, and it writes nothing
  bool overwrites_self = false;      ///< fills its first argument without looking at it
  bool writes_unsaid = false;        ///< writes arguments that its schema does not name
  bool keeps_self = false;           ///< would write its first argument only when gradients are not finite
  bool computable = false;           ///< the CPU's kernel gives the same result, and nothing else happens
  bool is_all = false;               ///< whether all are true
  std::optional<c10::OperatorHandle> handle;
};

/// Of the operator that is being called; null for what is no operator. They live as long as the process.
OperatorFacts const* facts_of(at::RecordFunction const& call);

/// As rules and reports call it: nonzero, unique, ...; empty for nothing.
char const* name_of(Asks asks);

}  // namespace maxbatch::dry
