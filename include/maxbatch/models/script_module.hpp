#pragma once

#include <maxbatch/training/model_factory.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::models {

/// What makes one number of what a script gives.
enum class ScriptLoss {
  cross_entropy,       ///< its output [N, classes, …] against random classes [N, …]
  mean_squared_error,  ///< its output against random numbers of the same shape
  output               ///< the output is the loss
};

std::string_view to_string(ScriptLoss loss);
/// "cross-entropy", "mse" or "output"; none for another name.
std::optional<ScriptLoss> parse_script_loss(std::string_view name);

/// A model that Python wrote with `torch.jit.script(model).save(file)`, or `torch.jit.trace`.
struct ScriptOptions {
  std::string file;
  std::vector<std::int64_t> sample_shape;  ///< of its one input, without the batch dimension: {3, 224, 224}
  ScriptLoss loss = ScriptLoss::cross_entropy;
  /// The inputs are whole numbers from 0 to below this, such as tokens; none: normally distributed floats.
  std::optional<std::int64_t> below;
};

/// A factory that trains the script on random inputs drawn inside the step. Its operations run as they stand, without the
/// script executor's profile runs and fused kernels, whose memory differs from one step to the next.
///
/// The factory's name says all of `options`, and `script_model_named` reads it: so a child process finds the script.
/// Its `make` loads the file anew each time, onto the device, and runs one sample.  Throws: InvalidArgument for a file that
/// is no script, one without parameters, and an input or loss that do not suit it, with what LibTorch says of it.
/// Throws: InvalidArgument for options that make no input, and for a file that is not there.
ModelFactory script_factory(ScriptOptions const& options);

/// None for a name that is not that of a script's factory.  Throws: as script_factory.
std::optional<ModelFactory> script_model_named(std::string const& name);

}  // namespace maxbatch::models
