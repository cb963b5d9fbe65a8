#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace torch {
namespace nn {
class Module;
}  // namespace nn
namespace optim {
class Optimizer;
}  // namespace optim
}  // namespace torch

namespace maxbatch::test {

/// A fingerprint of all that `preserve` promises to put back, in named parts, so that a test can say what changed.
/// It looks with its own eyes: nothing of the state guards' code is used.
///
///   auto const before = StateHash().add(*model).add(*optimizer).add_process();
///   …
///   EXPECT_THAT(before.differences(StateHash().add(*model).add(*optimizer).add_process()), IsEmpty());
class StateHash {
 public:
  /// Training flags; parameters and buffers: which tensor, where its values lie, the bytes of the whole storage,
  /// requires_grad, history; gradients: whether they exist, geometry and values (not the address: a gradient that nobody
  /// else saw may come back as another tensor).
  StateHash& add(torch::nn::Module const& module);
  /// Groups and their options; the state: for which parameters, which object, counters, tensors.
  StateHash& add(torch::optim::Optimizer& optimizer);
  StateHash& add(std::string const& name, at::Tensor const& tensor);
  StateHash& add(std::string const& name, at::Generator const& generator);
  /// Default generators, and the switches of the process and of this thread.
  StateHash& add_process();

  /// The names of parts that differ, or that only one of the two has.
  std::vector<std::string> differences(StateHash const& other) const;
  std::uint64_t value() const;

  friend bool operator==(StateHash const& a, StateHash const& b) { return a.parts_ == b.parts_; }
  friend bool operator!=(StateHash const& a, StateHash const& b) { return a.parts_ != b.parts_; }
  friend std::ostream& operator<<(std::ostream& out, StateHash const& hash);

 private:
  class Part;
  Part part(std::string const& name);
  void add_values(std::string const& name, at::Tensor const& tensor);

  std::map<std::string, std::uint64_t> parts_;
};

}  // namespace maxbatch::test
