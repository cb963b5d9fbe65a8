#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/state_guard.hpp>

#include <ATen/core/Tensor.h>

#include <mutex>
#include <utility>

namespace maxbatch {
namespace {

class GeneratorStateGuard final : public StateGuard {
 public:
  explicit GeneratorStateGuard(at::Generator generator) : generator_(std::move(generator)) {
    std::lock_guard<std::mutex> const lock(generator_.mutex());
    state_ = generator_.get_state();
  }

  void restore_structure() override {
    std::lock_guard<std::mutex> const lock(generator_.mutex());
    generator_.set_state(state_);
  }
  void restore_values() override { restore_structure(); }
  std::vector<NamedTensor> resident_tensors() const override { return {}; }

 private:
  at::Generator generator_;
  at::Tensor state_;  ///< on the host, for every kind of generator
};

}  // namespace

std::unique_ptr<StateGuard> make_state_guard(at::Generator const& generator) {
  if (!generator.defined()) { throw InvalidArgument("maxbatch cannot preserve an undefined generator."); }
  return std::make_unique<GeneratorStateGuard>(generator);
}

}  // namespace maxbatch
