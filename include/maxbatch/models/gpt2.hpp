#pragma once

#include <maxbatch/models/attention.hpp>
#include <maxbatch/training/model_factory.hpp>

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace maxbatch::models {

/// A decoder-only language model; the defaults are those of GPT-2 with 124 M parameters.
struct Gpt2Options {
  std::int64_t vocabulary = 50257;
  std::int64_t positions = 1024;  ///< the longest sequence
  std::int64_t width = 768;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  double dropout = 0.1;  ///< of embeddings, attention and residual branches, in training
  Attention attention = Attention::written_out;
  bool checkpoint = false;  ///< blocks keep their inputs only, and run again in the backward pass
};

/// The language model of "Language Models are Unsupervised Multitask Learners", equal to `GPT2LMHeadModel` of transformers
/// 5.24 (with these options) for the same weights: parameters have its names, so a state dict saved from Python loads by
/// `load_weights`. The output layer has the token embedding's weights. Weights start as those of transformers do.
/// Synchronises: no.
class Gpt2 : public torch::nn::Module {
 public:
  /// Builds the weights on `device`.  Throws: InvalidArgument for options that make no model.
  explicit Gpt2(Gpt2Options const& options, c10::Device device = c10::Device(c10::kCPU));

  /// Token numbers [N, tokens], of at most `positions` tokens, to logits [N, tokens, vocabulary].
  at::Tensor forward(at::Tensor const& tokens);
  /// The mean loss of predicting each token from those before it.
  at::Tensor loss(at::Tensor const& tokens);

  /// Copies what Python's `torch.save(model.state_dict(), file)` wrote for the model of these options, in place.
  /// Throws: InvalidArgument naming what is missing, unexpected or of another shape; nothing is changed then.
  void load_weights(std::string const& file);

  Gpt2Options const& options() const { return options_; }

 private:
  struct Parts;

  Gpt2Options options_;
  std::shared_ptr<Parts> parts_;
};

/// Number of parameters of a model with these options.  Throws: InvalidArgument for options that make no model.
std::int64_t parameter_count(Gpt2Options const& options);

/// A factory that trains such a model on random tokens drawn inside the step, `recipe.sequence_length` of them a sample
/// (none: as many as it has positions).
ModelFactory gpt2_factory(std::string name, std::string description, Gpt2Options const& options);

/// gpt2 and gpt2_fused.
std::vector<ModelFactory> gpt2_factories();

}  // namespace maxbatch::models
