#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <ATen/ops/empty.h>

#include <cstdint>

// 1 MiB a sample in a budget of 8 MiB: seven or eight fit, by what the device itself needs.
int main() {
  using namespace maxbatch::literals;
  maxbatch::MaxBatchFinder finder(maxbatch::budgeted_cpu_device(8_MiB));
  finder.preserve_nothing();
  auto const result = finder.find([](std::int64_t batch_size) { at::empty({batch_size, 1024, 256}).zero_(); });
  auto const batch_size = result.batch_size().value_or(0);
  return batch_size >= 7 && batch_size <= 8 ? 0 : 1;
}
