#pragma once

#include "json_values.hpp"
#include <maxbatch/training/finder_options.hpp>
#include <maxbatch/training/recipe.hpp>

#include <cstdint>
#include <optional>
#include <string>

/// What a runner and its child say to each other: one JSON object a line, a question and its answer in turn.
///
///   {"do": "open", …}            -> {"opened": device} when the first trial may come
///   {"do": "try", "size": 12}    -> {"outcome": …, "must_stop": false}
///   {"do": "flush"}              -> {"flushed": true}
///   {"do": "close"}              -> {"closed": device, "warnings": […], "reason": ""}
///   anything, on failure         -> {"error": "invalid argument" | "step never ran" | "failed", "text": …}
namespace maxbatch::detail {

/// One search as the child has to know it.
struct ChildOrder {
  std::string model;
  Recipe recipe;
  std::string device;
  std::optional<Bytes> budget;
  FinderOptions options;
};

Json order_to_json(ChildOrder const& order);
ChildOrder order_from(Json const& json);

}  // namespace maxbatch::detail
