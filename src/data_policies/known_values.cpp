#include "known_values.hpp"

#include <ATen/EmptyTensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <unordered_map>

namespace maxbatch::dry::known_values {
namespace {

// As in dry_cuda/memory/known_bytes.cpp: what is larger is data, and decides nothing one element at a time.
constexpr std::size_t kMostBytes = 65536;

struct Mirror {
  c10::weak_intrusive_ptr<c10::StorageImpl> of;
  c10::Storage host;
};

struct Mirrors {
  std::mutex mutex;
  std::unordered_map<c10::StorageImpl const*, Mirror> all;
  std::size_t sweep_at = 1024;
  std::atomic<std::size_t> count{0};

  /// With the lock held. A storage whose mirror lives keeps its address, so no other can have it.
  void sweep() {
    if (all.size() < sweep_at) { return; }
    for (auto mirror = all.begin(); mirror != all.end();) {
      mirror = mirror->second.of.expired() ? all.erase(mirror) : std::next(mirror);
    }
    sweep_at = std::max<std::size_t>(1024, 2 * all.size());
    count = all.size();
  }
};

Mirrors& mirrors() {
  static auto* const all = new Mirrors;  // operators run until the very end of the process
  return *all;
}

at::Tensor view_of(c10::Storage const& host, at::Tensor const& tensor) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(host), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                       tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return view;
}

}  // namespace

bool can_be_known(at::Tensor const& tensor) {
  auto const* const impl = tensor.unsafeGetTensorImpl();
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet kOther({DispatchKey::Python, DispatchKey::Functionalize, DispatchKey::Conjugate,
                                        DispatchKey::Negative, DispatchKey::ZeroTensor, DispatchKey::FuncTorchBatched,
                                        DispatchKey::FuncTorchGradWrapper, DispatchKey::NestedTensor});
  return tensor.defined() && !impl->key_set().has_any(kOther) && impl->layout() == c10::kStrided &&
         impl->has_storage() && !tensor.is_quantized() && tensor.storage().nbytes() <= kMostBytes;
}

at::Tensor find(at::Tensor const& tensor) {
  if (mirrors().count.load(std::memory_order_relaxed) == 0) { return {}; }
  auto const* const storage = tensor.storage().unsafeGetStorageImpl();
  std::lock_guard<std::mutex> const lock(mirrors().mutex);
  auto const found = mirrors().all.find(storage);
  if (found == mirrors().all.end()) { return {}; }
  if (found->second.host.nbytes() != tensor.storage().nbytes()) {  // it was resized
    mirrors().all.erase(found);
    return {};
  }
  return view_of(found->second.host, tensor);
}

at::Tensor make(at::Tensor const& tensor) {
  auto const bytes = tensor.storage().nbytes();
  if (!tensor.is_non_overlapping_and_dense() || tensor.storage_offset() != 0 || tensor.nbytes() != bytes) {
    forget(tensor);
    return {};
  }
  auto const host = at::detail::empty_cpu({static_cast<std::int64_t>(bytes)}, at::TensorOptions(at::kByte)).storage();
  auto storage = tensor.storage().getWeakStorageImpl();
  std::lock_guard<std::mutex> const lock(mirrors().mutex);
  mirrors().sweep();
  mirrors().all.insert_or_assign(tensor.storage().unsafeGetStorageImpl(), Mirror{std::move(storage), host});
  mirrors().count = mirrors().all.size();
  return view_of(host, tensor);
}

void forget(at::Tensor const& tensor) {
  if (mirrors().count.load(std::memory_order_relaxed) == 0) { return; }
  std::lock_guard<std::mutex> const lock(mirrors().mutex);
  mirrors().all.erase(tensor.storage().unsafeGetStorageImpl());
}

void forget_all() {
  if (mirrors().count.load(std::memory_order_relaxed) == 0) { return; }
  std::lock_guard<std::mutex> const lock(mirrors().mutex);
  mirrors().all.clear();
  mirrors().count = 0;
}

}  // namespace maxbatch::dry::known_values
