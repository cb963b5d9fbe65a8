#pragma once

#include <maxbatch/training/trial.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace maxbatch {

enum class OptimizerKind { adamw, sgd };
enum class Precision { fp32, tf32, bf16, fp16 };

std::string_view to_string(OptimizerKind kind);
std::string_view to_string(Precision precision);
/// None for a name that is neither; names are those of the command line: "adamw", "sgd"; "fp32", "tf32", "bf16", "fp16".
std::optional<OptimizerKind> parse_optimizer(std::string_view name);
std::optional<Precision> parse_precision(std::string_view name);

/// How a model is trained, as far as memory depends on it.
struct Recipe {
  OptimizerKind optimizer = OptimizerKind::adamw;
  Precision precision = Precision::fp32;
  std::int64_t accumulation = 1;        ///< micro-batches per optimizer step, each of the trial's batch size
  std::optional<ImageSize> image_size;  ///< none: the model's own
};

}  // namespace maxbatch
