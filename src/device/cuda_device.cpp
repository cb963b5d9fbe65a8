#include "allocator_hook.hpp"
#include "cuda_checks.hpp"
#include "cuda_trial_window.hpp"
#include "cuda_warm_up.hpp"
#include "dry_card_mark.hpp"
#include "library_workspaces.hpp"
#include "memory_fraction_guard.hpp"
#include <maxbatch/device/cuda_device.hpp>
#include <maxbatch/search/errors.hpp>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace maxbatch {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using detail::AllocatorHook;

constexpr auto kAggregate = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

void require_positive(std::optional<Bytes> budget) {
  if (budget && budget->count <= 0) {
    throw InvalidArgument("A budget must be more than zero bytes, and this is " + std::to_string(budget->count) +
                          ". For no budget of its own (what the device has) give none.");
  }
}

/// Makes the allocator flush what this device has cached, and nobody else's, by a request that no limit of one byte
/// allows: it is refused after the flush.
void flush_by_refused_request(c10::DeviceIndex index) {
  detail::MemoryFractionGuard const nothing(index, Bytes{1});
  try {
    allocator::raw_delete(allocator::raw_alloc(std::size_t{1} << 59U));
  } catch (c10::OutOfMemoryError const&) {  // NOLINT(bugprone-empty-catch): as wanted
  }
}

class CudaDeviceOfIndex final : public CudaDevice {
 public:
  CudaDeviceOfIndex(c10::DeviceIndex index, std::optional<Bytes> budget) : index_(index), budget_(budget) {
    detail::check_present(index_);
    detail::check_own_memory(index_);
    at::globalContext().lazyInitDevice(c10::kCUDA);
    detail::check_allocator();
    is_dry_ = detail::is_on_dry_card();
    hook_ = &AllocatorHook::of_process();
  }

  DeviceDescription describe() const override {
    c10::cuda::CUDAGuard const guard(index_);
    auto const& properties = *at::cuda::getDeviceProperties(index_);
    std::size_t free = 0;
    std::size_t total = 0;
    bool const answers = cudaMemGetInfo(&free, &total) == cudaSuccess;  // not after a sticky error

    DeviceDescription description;
    description.name = properties.name;
    description.torch_device = torch_device();
    description.total = Bytes{static_cast<std::int64_t>(answers ? total : properties.totalGlobalMem)};
    description.budget = budget_;
    if (answers) {
      auto const reserved = allocator::getDeviceStats(index_).reserved_bytes[kAggregate].current;
      description.outside_allocator = headroom(description.total, Bytes{static_cast<std::int64_t>(free) + reserved});
      description.usable = description.total - *description.outside_allocator;
      if (auto const limit = detail::allocator_limit(index_)) {
        description.usable = std::min(*description.usable, *limit);
      }
    }
    description.allocator_settings = c10::CachingAllocator::getAllocatorSettings();
    description.multiprocessors = properties.multiProcessorCount;
    description.max_threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
    description.evidence = is_dry_ ? DeviceEvidence::dry : DeviceEvidence::measured;
    return description;
  }

  c10::Device torch_device() const override { return {c10::kCUDA, index_}; }

  void set_budget(std::optional<Bytes> budget) override {
    require_positive(budget);
    budget_ = budget;
  }

  void set_resident(Bytes /*already_allocated*/) override {}  // the allocator sees everything

  void warm_up() override {
    detail::check_no_capture(index_);
    detail::warm_up_cuda(torch_device());
    release_cached_memory();
  }

  std::unique_ptr<TrialWindow> open_trial() override {
    detail::check_allocator();
    c10::cuda::CUDAGuard const guard(index_);
    detail::check_no_capture(index_);
    cudaGetLastError();
    return std::make_unique<detail::CudaTrialWindow>(index_, budget_, peaks_are_exact_);
  }

  void synchronize() override {
    c10::cuda::CUDAGuard const guard(index_);
    c10::cuda::device_synchronize();
  }

  void release_cached_memory() noexcept override {
    try {
      c10::cuda::CUDAGuard const guard(index_);
      cudaGetLastError();
      detail::release_library_workspaces(index_);
      // That flushes every device, and is no trial's business.
      bool const is_flushed = hook_->run_unless_others_have_trials(index_, [] { allocator::emptyCache(); });
      if (!is_flushed) { flush_by_refused_request(index_); }
    } catch (...) {  // NOLINT(bugprone-empty-catch): a lost device has nothing to release; is_alive tells
    }
    cudaGetLastError();
  }

  bool is_alive() noexcept override { return detail::answers_rightly(torch_device(), !is_dry_); }

  bool peaks_are_exact() const override { return peaks_are_exact_; }

 private:
  c10::DeviceIndex const index_;
  std::optional<Bytes> budget_;
  bool is_dry_ = false;
  bool peaks_are_exact_ = true;
  AllocatorHook* hook_ = nullptr;
};

}  // namespace

std::shared_ptr<CudaDevice> cuda_device(c10::DeviceIndex index, std::optional<Bytes> budget) {
  require_positive(budget);
  return std::make_shared<CudaDeviceOfIndex>(index, budget);
}

}  // namespace maxbatch
