#pragma once

#include "allocator_program.hpp"
#include <maxbatch/simulation/allocator_event.hpp>
#include <maxbatch/simulation/allocator_options.hpp>
#include <maxbatch/simulation/allocator_statistics.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch::test {

/// LibTorch's caching allocator of device 0, real or dry. One at a time; the destructor leaves the allocator empty.
class RealAllocator {
 public:
  /// Why there is none here; nothing where there is.
  static std::optional<std::string> missing();

  RealAllocator();
  ~RealAllocator();
  RealAllocator(RealAllocator const&) = delete;
  RealAllocator& operator=(RealAllocator const&) = delete;

  /// Total memory, and what is not free of it while the allocator is empty.
  SimulatedDevice device() const;
  StreamHandle stream(int number) const;
  PrivatePoolId pool(int number) const;

  void set_settings(std::string const& text);
  void hold_events(bool hold);
  /// Whether memory was handed out; 0 bytes are.
  bool allocate(int block, std::uint64_t bytes, int stream);
  void free(int block);
  void record_stream(int block, int stream);
  void synchronise(int stream);
  void empty_cache();
  void empty_pool(int pool);
  void set_limit(std::optional<std::int64_t> limit);
  void begin_pool(int pool, int stream);
  void end_pool(int pool);
  void release_pool(int pool);
  void incref_pool(int pool);
  int pool_use_count(int pool) const;
  void use_on_oom(int pool, bool use);
  void no_split(int pool);
  void reset_peaks();
  void reset_sums();

  std::vector<AllocatorEvent> take_events();
  AllocatorStatistics statistics() const;

 private:
  void fill_empty_segments();

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maxbatch::test
