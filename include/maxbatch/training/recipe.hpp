#pragma once

#include <maxbatch/training/trial.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch {

/// LibTorch's own, a parameter at a time; `foreach`: over all parameters at once; `fused`: one kernel a step. See
/// multi_tensor_optimizers.hpp; temporaries differ, and with them the boundary. SGD has momentum.
enum class OptimizerKind { adamw, adamw_foreach, adamw_fused, sgd, sgd_foreach, sgd_fused };
enum class Precision { fp32, tf32, bf16, fp16 };

std::string_view to_string(OptimizerKind kind);
std::string_view to_string(Precision precision);
/// None for a name that is neither; names are those of the command line: "adamw", "adamw-foreach", "adamw-fused", "sgd",
/// "sgd-foreach", "sgd-fused"; "fp32", "tf32", "bf16", "fp16".
std::optional<OptimizerKind> parse_optimizer(std::string_view name);
std::optional<Precision> parse_precision(std::string_view name);
/// In the order of the enumeration: what the command line takes.
std::vector<std::string> optimizer_names();

/// How a model is trained, as far as memory depends on it.
struct Recipe {
  OptimizerKind optimizer = OptimizerKind::adamw_fused;  ///< the fastest AdamW, on the CPU too
  Precision precision = Precision::fp32;
  std::int64_t accumulation = 1;                ///< micro-batches per optimizer step, each of the trial's batch size
  std::optional<ImageSize> image_size;          ///< none: the model's own
  std::optional<std::int64_t> sequence_length;  ///< tokens a sample, of a language model; none: the model's own
  bool checkpoint = false;                      ///< blocks keep their inputs only, and run again in the backward pass
  bool channels_last = false;                   ///< convolutions and their images [N, C, H, W] laid out as [N, H, W, C]
};

}  // namespace maxbatch
