#pragma once

#include <c10/core/Storage.h>

#include <cstddef>
#include <memory>
#include <unordered_map>

namespace maxbatch::detail {

/// A copy of a storage's bytes in host memory. It comes from the C++ heap and not from LibTorch's allocator, so that no
/// budget charges it and no allocation counter sees it. Of large storages on a dry card, which have no contents, nothing is
/// copied.
class HostBytes {
 public:
  explicit HostBytes(c10::Storage const& source);

  std::size_t size() const { return size_; }
  /// `target` has `size()` bytes.
  void copy_to(c10::Storage const& target) const;

 private:
  std::size_t size_;
  std::unique_ptr<std::byte[]> bytes_;  ///< null: there is nothing to copy
};

/// Whole storages, each once however many tensors lie in it: views, tied weights and the gaps between strided elements
/// come back together, and a NaN keeps its payload, since nothing is interpreted.
class StorageSnapshots {
 public:
  void add(c10::Storage const& storage);
  /// In place: the same storages, and the same addresses unless somebody resized one meanwhile.
  void restore() const;

 private:
  struct Snapshot {
    c10::Storage storage;
    HostBytes bytes;
  };
  std::unordered_map<c10::StorageImpl*, Snapshot> snapshots_;
};

}  // namespace maxbatch::detail
