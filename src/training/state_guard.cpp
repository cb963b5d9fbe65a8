#include "state_guard_tensors.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/state_guard.hpp>

#include <c10/util/Exception.h>

#include <unordered_set>

namespace maxbatch {
namespace {

class TensorStateGuard final : public StateGuard {
 public:
  explicit TensorStateGuard(at::Tensor const& tensor) { tensors_.add("tensor", tensor); }

  void restore_structure() override { tensors_.restore_structure(); }
  void restore_values() override { tensors_.restore_values(); }
  std::vector<NamedTensor> resident_tensors() const override { return tensors_.resident_tensors(); }

 private:
  detail::TensorSnapshots tensors_;
};

constexpr std::size_t kDeviceRounding = 512;

}  // namespace

std::unique_ptr<StateGuard> make_state_guard(at::Tensor const& tensor) {
  if (!tensor.defined()) { throw InvalidArgument("maxbatch cannot preserve an undefined tensor: it has no values."); }
  return std::make_unique<TensorStateGuard>(tensor);
}

Bytes resident_bytes(std::vector<StateGuard::NamedTensor> const& tensors, c10::Device device) {
  std::unordered_set<c10::StorageImpl*> seen;
  std::size_t total = 0;
  for (auto const& [name, tensor] : tensors) {
    if (!tensor.defined() || !tensor.has_storage() || tensor.device() != device) { continue; }
    if (!seen.insert(tensor.storage().unsafeGetStorageImpl()).second) { continue; }
    total += (tensor.storage().nbytes() + kDeviceRounding - 1) / kDeviceRounding * kDeviceRounding;
  }
  return Bytes{static_cast<std::int64_t>(total)};
}

}  // namespace maxbatch
