#include "recipe_check.hpp"
#include "training_step.hpp"
#include <maxbatch/device/failure_classifier.hpp>
#include <maxbatch/models/script_module.hpp>
#include <maxbatch/search/errors.hpp>

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <array>
#include <charconv>
#include <fstream>
#include <set>
#include <utility>

namespace maxbatch::models {
namespace {

constexpr char const* kPrefix = "script ";
constexpr std::string_view kBetween = "; ";  // what a name says of a script
constexpr std::string_view kFloats = "floats";
constexpr std::string_view kBelow = "below ";
constexpr std::array<std::pair<ScriptLoss, std::string_view>, 3> kLosses = {
    {{ScriptLoss::cross_entropy, "cross-entropy"},
     {ScriptLoss::mean_squared_error, "mse"},
     {ScriptLoss::output, "output"}}};

/// LibTorch appends the script's source and a backtrace.
std::string first_line_of(std::exception const& error) {
  std::string const text = error.what();
  // A script's own failure is what stands after the source lines; LibTorch begins with a sentence about the interpreter.
  auto const marker = text.rfind("RuntimeError: ");
  auto const from = marker == std::string::npos ? 0 : marker + 14;
  return text.substr(from, text.find('\n', from) - from);
}

std::string shape_text(ScriptOptions const& options) {
  std::string text = "N";
  for (auto const size : options.sample_shape) { text += "," + std::to_string(size); }
  return text;
}

std::string shape_text(at::Tensor const& tensor) { return c10::str(tensor.sizes()); }

std::string name_of(ScriptOptions const& options) {
  auto name = kPrefix + options.file;
  auto const limit = options.below ? std::string(kBelow) + std::to_string(*options.below) : std::string(kFloats);
  for (auto const& part : {shape_text(options), std::string(to_string(options.loss)), limit}) {
    name.append(kBetween).append(part);
  }
  return name;
}

/// A script as a module: the same parameters and buffers under the same names, so that optimizers and guards find them.
class ScriptModule : public torch::nn::Module {
 public:
  explicit ScriptModule(torch::jit::Module script) : script_(std::move(script)) {
    std::set<c10::TensorImpl*> known;
    adopt(*this, script_, known);
  }

  void train(bool on = true) override {
    Module::train(on);
    script_.train(on);
  }

  at::Tensor forward(at::Tensor const& inputs) {
    torch::jit::GraphOptimizerEnabledGuard const as_it_stands(false);
    auto const output = script_.forward({inputs});
    if (!output.isTensor()) {
      throw InvalidArgument("it gives a " + output.tagKind() + " and not one tensor: script a model that does");
    }
    return output.toTensor();
  }

 private:
  static void adopt(Module& into, torch::jit::Module const& script, std::set<c10::TensorImpl*>& known) {
    auto const is_new = [&](at::Tensor const& tensor) { return known.insert(tensor.unsafeGetTensorImpl()).second; };
    for (auto const& item : script.named_parameters(/*recurse=*/false)) {
      if (is_new(item.value)) { into.register_parameter(item.name, item.value, item.value.requires_grad()); }
    }
    for (auto const& item : script.named_buffers(/*recurse=*/false)) {
      if (is_new(item.value)) { into.register_buffer(item.name, item.value); }
    }
    for (auto const& item : script.named_children()) {
      adopt(*into.register_module(item.name, std::make_shared<Module>()), item.value, known);
    }
  }

  torch::jit::Module script_;
};

std::shared_ptr<ScriptModule> load(std::string const& file, c10::Device device) {
  auto const script = [&] {
    try {
      return torch::jit::load(file, device);
    } catch (c10::Error const& error) {
      throw InvalidArgument(
          "'" + file + "' is no script: write one with torch.jit.script(model).save(…) in Python (LibTorch says: " +
          error.what_without_backtrace() + ")");
    }
  }();
  auto module = std::make_shared<ScriptModule>(script);
  for (auto const& parameter : module->parameters()) {
    if (parameter.requires_grad()) { return module; }
  }
  throw InvalidArgument("the script '" + file + "' has no parameters to train: was it frozen?");
}

at::Tensor draw(ScriptOptions const& options, std::int64_t batch_size, c10::Device device) {
  auto shape = options.sample_shape;
  shape.insert(shape.begin(), batch_size);
  if (!options.below) { return torch::randn(shape, device); }
  return torch::randint(*options.below, shape, at::device(device).dtype(at::kLong));
}

/// What the script makes of one sample.
at::Tensor try_one_sample(ScriptModule& module, ScriptOptions const& options, c10::Device device) {
  at::NoGradGuard const no_gradients;
  module.eval();
  try {
    return module.forward(draw(options, 1, device));
  } catch (std::exception const& error) {
    if (is_memory_failure(classify(describe_failure(error), {}, nullptr).verdict)) { throw; }
    throw InvalidArgument("the script '" + options.file + "' does not run on an input of " + shape_text(options) +
                          (options.below ? " whole numbers" : "") + ": " + first_line_of(error));
  }
}

void check_output(ScriptOptions const& options, at::Tensor const& output) {
  auto const refuse = [&](std::string const& why) {
    throw InvalidArgument("loss " + std::string(to_string(options.loss)) + " does not suit the script '" +
                          options.file + "', which makes " + shape_text(output) + " of one sample: " + why);
  };
  switch (options.loss) {
    case ScriptLoss::cross_entropy:
      if (output.dim() < 2) { refuse("it takes scores [N, classes, …]"); }
      break;
    case ScriptLoss::mean_squared_error:
      if (!output.is_floating_point()) { refuse("it takes floats"); }
      break;
    case ScriptLoss::output:
      if (output.numel() != 1) { refuse("it takes a single number"); }
      break;
  }
}

at::Tensor loss_of(ScriptLoss loss, at::Tensor const& output) {
  switch (loss) {
    case ScriptLoss::cross_entropy: {
      auto shape = output.sizes().vec();
      auto const classes = shape[1];
      shape.erase(shape.begin() + 1);
      auto const targets = torch::randint(classes, shape, at::device(output.device()).dtype(at::kLong));
      return torch::nn::functional::cross_entropy(output, targets);
    }
    case ScriptLoss::mean_squared_error: return at::mse_loss(output, at::randn_like(output));
    case ScriptLoss::output: break;
  }
  return output.reshape({});
}

PreparedStep make_script(std::string const& name, ScriptOptions const& options, c10::Device device,
                         Recipe const& recipe) {
  RecipeAbilities abilities;
  abilities.channels_last = options.sample_shape.size() == 3;
  check_recipe(name, recipe, device, abilities);
  auto const module = load(options.file, device);
  check_output(options, try_one_sample(*module, options, device));
  Learner learner;
  learner.module = module;
  learner.draw_inputs = [options](Trial const& trial) { return draw(options, trial.batch_size(), trial.device()); };
  learner.loss = [module, loss = options.loss](at::Tensor const& inputs, at::Tensor const& /*targets*/) {
    return loss_of(loss, module->forward(inputs));
  };
  return prepare_training_step(std::move(learner), recipe);
}

bool read_number(std::string_view text, std::int64_t& number) {
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

std::string_view to_string(ScriptLoss loss) {
  for (auto const& [known, name] : kLosses) {
    if (known == loss) { return name; }
  }
  return "";
}

std::optional<ScriptLoss> parse_script_loss(std::string_view name) {
  for (auto const& [loss, known] : kLosses) {
    if (known == name) { return loss; }
  }
  return std::nullopt;
}

ModelFactory script_factory(ScriptOptions const& options) {
  for (auto const size : options.sample_shape) {
    if (size < 1) {
      throw InvalidArgument("an input of " + shape_text(options) + " holds nothing: each size must be 1 or more");
    }
  }
  if (options.below && *options.below < 1) {
    throw InvalidArgument("no whole number is below " + std::to_string(*options.below) + " and at least 0");
  }
  if (!std::ifstream(options.file).good()) {
    throw InvalidArgument("the script '" + options.file + "' cannot be read");
  }
  ModelFactory factory;
  factory.name = name_of(options);
  factory.description = "a TorchScript model";
  factory.make = [name = factory.name, options](c10::Device device, Recipe const& recipe) {
    return make_script(name, options, device, recipe);
  };
  return factory;
}

std::optional<ModelFactory> script_model_named(std::string const& name) {
  std::string const prefix = kPrefix;
  if (name.rfind(prefix, 0) != 0) { return std::nullopt; }
  // From the end, since a file's name may hold anything.
  std::array<std::string, 3> parts;  // shape, loss, limit
  auto rest = name.substr(prefix.size());
  for (auto i = parts.size(); i-- > 0;) {
    auto const end = rest.rfind(kBetween);
    if (end == std::string::npos) { return std::nullopt; }
    parts.at(i) = rest.substr(end + kBetween.size());
    rest.resize(end);
  }
  ScriptOptions options;
  options.file = rest;
  auto const loss = parse_script_loss(parts[1]);
  if (!loss || parts[0].empty() || parts[0][0] != 'N') { return std::nullopt; }
  options.loss = *loss;
  for (std::size_t at = 1; at < parts[0].size();) {
    auto const end = std::min(parts[0].find(',', at + 1), parts[0].size());
    std::int64_t size = 0;
    if (parts[0][at] != ',' || !read_number(std::string_view(parts[0]).substr(at + 1, end - at - 1), size)) {
      return std::nullopt;
    }
    options.sample_shape.push_back(size);
    at = end;
  }
  if (parts[2].rfind(kBelow, 0) == 0) {
    if (!read_number(std::string_view(parts[2]).substr(kBelow.size()), options.below.emplace())) {
      return std::nullopt;
    }
  } else if (parts[2] != kFloats) {
    return std::nullopt;
  }
  return script_factory(options);
}

}  // namespace maxbatch::models
