#include "state_guard_storages.hpp"

#include "../device/dry_card_mark.hpp"
#include "state_guard_run_all.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstdint>
#include <cstring>

namespace maxbatch::detail {
namespace {

/// On a dry card only what was copied there is known, and of that only short pieces, such as a loss scale. Copying the zeros
/// that stand for the rest would cost a search of a large model a good part of its time.
bool has_no_contents(c10::Storage const& storage) {
  constexpr std::size_t kMostKnown = 65536;  // kMostBytes of src/dry_cuda/memory/known_bytes.cpp
  return storage.device().is_cuda() && storage.nbytes() > kMostKnown && is_on_dry_card();
}

at::Tensor bytes_on_device(c10::Storage const& storage, std::size_t size) {
  auto const options = at::TensorOptions(at::kByte).device(storage.device());
  return at::empty({0}, options).set_(storage, 0, {static_cast<std::int64_t>(size)});
}

at::Tensor bytes_on_host(std::byte* bytes, std::size_t size) {
  return at::from_blob(bytes, {static_cast<std::int64_t>(size)}, at::TensorOptions(at::kByte));
}

/// Somebody resized the storage: its memory is gone, and with it the address. FSDP-like code does that between steps.
void resize_back(c10::Storage const& storage, std::size_t size) {
  TORCH_CHECK(storage.allocator() != nullptr, "a storage that cannot be resized changed its size");
  storage.set_data_ptr_noswap(storage.allocator()->allocate(size));
  storage.set_nbytes(size);
}

}  // namespace

HostBytes::HostBytes(c10::Storage const& source) : size_(source.nbytes()) {
  if (size_ == 0 || has_no_contents(source)) { return; }
  bytes_.reset(new std::byte[size_]);
  if (source.device().is_cpu()) {
    std::memcpy(bytes_.get(), source.data(), size_);
  } else {
    at::AutoDispatchBelowAutograd const no_autograd;
    bytes_on_host(bytes_.get(), size_).copy_(bytes_on_device(source, size_));
  }
}

void HostBytes::copy_to(c10::Storage const& target) const {
  if (!bytes_) { return; }
  if (target.device().is_cpu()) {
    std::memcpy(target.mutable_data(), bytes_.get(), size_);
  } else {
    at::AutoDispatchBelowAutograd const no_autograd;
    bytes_on_device(target, size_).copy_(bytes_on_host(bytes_.get(), size_));
  }
}

void StorageSnapshots::add(c10::Storage const& storage) {
  auto* const key = storage.unsafeGetStorageImpl();
  if (snapshots_.count(key) == 0) { snapshots_.emplace(key, Snapshot{storage, HostBytes(storage)}); }
}

void StorageSnapshots::restore() const {
  RunAll run;
  for (auto const& [key, snapshot] : snapshots_) {
    run([&storage = snapshot.storage, &bytes = snapshot.bytes] {
      if (storage.nbytes() != bytes.size()) { resize_back(storage, bytes.size()); }
      bytes.copy_to(storage);
    });
  }
  run.finish();
}

}  // namespace maxbatch::detail
