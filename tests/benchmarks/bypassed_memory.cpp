// What of an operator's memory the budgeted CPU device does not see: oneDNN's and MKL's scratch, and whatever else takes
// memory from the C library behind LibTorch's CPU allocator. Interposes the C library's allocation functions, so it is a
// program of its own; its table is in docs/cpu_budget.md.
//
//   bypassed_memory [THREADS]        (default 2: scratch may be per thread, so the number is part of the result)

#include <maxbatch/device/budgeted_cpu_device.hpp>

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {  // glibc's own names for what is interposed here
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace {

/// Live bytes that do not come through LibTorch's CPU allocator, and their peak.
std::atomic<std::int64_t> bypassing{0};
std::atomic<std::int64_t> bypassing_peak{0};

/// The calling thread is inside LibTorch's CPU allocator: what it takes and gives back there is counted by the ledger.
thread_local int inside_cpu_allocator = 0;

void count(std::int64_t bytes) {
  if (inside_cpu_allocator > 0) { return; }
  auto const now = bypassing.fetch_add(bytes) + bytes;
  auto peak = bypassing_peak.load();
  while (now > peak && !bypassing_peak.compare_exchange_weak(peak, now)) {}
}

std::int64_t size_of(void* block) {
  return block == nullptr ? 0 : static_cast<std::int64_t>(malloc_usable_size(block));
}

void* counted(void* block) {
  count(size_of(block));
  return block;
}

/// Anonymous mappings made by libraries themselves; malloc's own do not come this way.
class Mappings {
 public:
  void add(void* address, std::size_t size) {
    Lock const lock(busy_);
    for (auto& entry : entries_) {
      if (entry.first == nullptr) {
        entry = {address, size};
        count(static_cast<std::int64_t>(size));
        return;
      }
    }
  }
  void remove(void* address, std::size_t size) {
    Lock const lock(busy_);
    for (auto& entry : entries_) {
      if (entry.first == address && entry.second == size) {
        entry.first = nullptr;
        count(-static_cast<std::int64_t>(size));
        return;
      }
    }
  }

 private:
  struct Lock {  // no std::mutex: this runs before and after everything
    explicit Lock(std::atomic_flag& flag) : busy(flag) {
      while (busy.test_and_set(std::memory_order_acquire)) {}
    }
    ~Lock() { busy.clear(std::memory_order_release); }
    Lock(Lock const&) = delete;
    Lock& operator=(Lock const&) = delete;
    std::atomic_flag& busy;
  };
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::array<std::pair<void*, std::size_t>, 8192> entries_{};
};

Mappings mappings;

}  // namespace

extern "C" {

void* malloc(std::size_t size) noexcept { return counted(__libc_malloc(size)); }
void* calloc(std::size_t n, std::size_t size) noexcept { return counted(__libc_calloc(n, size)); }
void* realloc(void* block, std::size_t size) noexcept {
  auto const before = size_of(block);
  auto* const moved = __libc_realloc(block, size);
  if (moved != nullptr || size == 0) { count(size_of(moved) - before); }
  return moved;
}
void* memalign(std::size_t alignment, std::size_t size) noexcept { return counted(__libc_memalign(alignment, size)); }
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept { return memalign(alignment, size); }
int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
  *block = memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}
void free(void* block) noexcept {
  count(-size_of(block));
  __libc_free(block);
}

void* mmap(void* address, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the system call returns an address as a number
  auto* const mapped = reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, file, offset));
  if (mapped != MAP_FAILED && (flags & MAP_ANONYMOUS) != 0) { mappings.add(mapped, size); }
  return mapped;
}
void* mmap64(void* address, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
  return mmap(address, size, protection, flags, file, offset);
}
int munmap(void* address, std::size_t size) noexcept {
  mappings.remove(address, size);
  return static_cast<int>(syscall(SYS_munmap, address, size));
}

}  // extern "C"

namespace {

/// Marks, for the interposed functions, what LibTorch's allocator does. Installed before maxbatch's, so it is what
/// stands under the budget.
class MarkingAllocator final : public c10::Allocator {
 public:
  explicit MarkingAllocator(c10::Allocator& upstream) : upstream_(upstream) {
    upstream_deleter = upstream.raw_deleter();
  }
  c10::DataPtr allocate(std::size_t size) override {
    ++inside_cpu_allocator;
    auto memory = upstream_.allocate(size);
    --inside_cpu_allocator;
    if (!memory.compare_exchange_deleter(upstream_deleter, &free_marked)) { std::abort(); }
    return memory;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_marked; }
  void copy_data(void* to, void const* from, std::size_t size) const override { upstream_.copy_data(to, from, size); }

 private:
  static void free_marked(void* memory) {
    ++inside_cpu_allocator;
    upstream_deleter(memory);
    --inside_cpu_allocator;
  }
  static inline c10::DeleterFnPtr upstream_deleter = nullptr;
  c10::Allocator& upstream_;
};

using Forward = std::function<at::Tensor(std::int64_t batch_size)>;

struct Operator {
  std::string name;
  std::function<Forward(at::ScalarType)> make;
  bool has_bf16 = true;
};

at::Tensor leaf(at::IntArrayRef sizes, at::ScalarType type) {
  return torch::randn(sizes).to(type).set_requires_grad(true);
}

std::vector<Operator> operators() {
  return {
      {"conv2d 3x3, 64 to 64, 56x56",
       [](at::ScalarType type) -> Forward {
         return [type, w = leaf({64, 64, 3, 3}, type)](std::int64_t n) {
           return at::conv2d(leaf({n, 64, 56, 56}, type), w, {}, 1, 1);
         };
       }},
      {"conv2d 7x7/2, 3 to 64, 224x224",
       [](at::ScalarType type) -> Forward {
         return [type, w = leaf({64, 3, 7, 7}, type)](std::int64_t n) {
           return at::conv2d(leaf({n, 3, 224, 224}, type), w, {}, 2, 3);
         };
       }},
      {"conv2d depthwise 3x3, 128, 28x28",
       [](at::ScalarType type) -> Forward {
         return [type, w = leaf({128, 1, 3, 3}, type)](std::int64_t n) {
           return at::conv2d(leaf({n, 128, 28, 28}, type), w, {}, 1, 1, 1, 128);
         };
       }},
      {"linear 1024 to 4096, 64 rows each",
       [](at::ScalarType type) -> Forward {
         return [type, w = leaf({4096, 1024}, type), b = leaf({4096}, type)](std::int64_t n) {
           return at::linear(leaf({n, 64, 1024}, type), w, b);
         };
       }},
      {"matmul, 8 of 256x256 each",
       [](at::ScalarType type) -> Forward {
         return [type](std::int64_t n) {
           return at::matmul(leaf({n, 8, 256, 256}, type), leaf({n, 8, 256, 256}, type));
         };
       }},
      {"attention, 8 heads, 512 x 64",
       [](at::ScalarType type) -> Forward {
         return [type](std::int64_t n) {
           return at::scaled_dot_product_attention(leaf({n, 8, 512, 64}, type), leaf({n, 8, 512, 64}, type),
                                                   leaf({n, 8, 512, 64}, type));
         };
       }},
      {"LSTM 256 to 256, 64 steps",
       [](at::ScalarType type) -> Forward {
         torch::nn::LSTM lstm(torch::nn::LSTMOptions(256, 256).batch_first(true));
         lstm->to(type);
         return [type, lstm](std::int64_t n) mutable { return std::get<0>(lstm->forward(leaf({n, 64, 256}, type))); };
       }},
      {"batch norm 64, 56x56",
       [](at::ScalarType type) -> Forward {
         return [type, w = leaf({64}, type), b = leaf({64}, type)](std::int64_t n) {
           return at::batch_norm(leaf({n, 64, 56, 56}, type), w, b, {}, {}, true, 0.1, 1e-5, false);
         };
       }},
      {"conv3d 3x3x3, 16 to 16, 16x56x56",
       [](at::ScalarType type) -> Forward {
         return [type, w = leaf({16, 16, 3, 3, 3}, type)](std::int64_t n) {
           return at::conv3d(leaf({n, 16, 16, 56, 56}, type), w, {}, 1, 1);
         };
       }},
      {"conv2d transposed 4x4/2, 64, 56x56",
       [](at::ScalarType type) -> Forward {
         return [type, w = leaf({64, 64, 4, 4}, type)](std::int64_t n) {
           return at::conv_transpose2d(leaf({n, 64, 56, 56}, type), w, {}, 2, 1);
         };
       }},
      {"fft2, 64 of 56x56 each",
       [](at::ScalarType type) -> Forward {
         return [type](std::int64_t n) { return at::abs(at::fft_rfft2(leaf({n, 64, 56, 56}, type))); };
       },
       false},
      {"singular values of 8 of 64x64 each",
       [](at::ScalarType type) -> Forward {
         return [type](std::int64_t n) { return at::linalg_svdvals(leaf({n, 8, 64, 64}, type)); };
       },
       false},
      {"sort 64 rows of 4096 each",
       [](at::ScalarType type) -> Forward {
         return [type](std::int64_t n) { return std::get<0>(at::sort(leaf({n, 64, 4096}, type))); };
       }},
  };
}

struct Measured {
  std::int64_t seen = 0;      // peak above the start, of the ledger
  std::int64_t bypassed = 0;  // peak above the start, of the rest
  std::int64_t kept = 0;      // of the rest, not given back at the end
};

class Meter {
 public:
  Meter(maxbatch::MemoryDevice& device, maxbatch::Phase phase) : window_(device.open_trial()), phase_(phase) {
    window_->enter_phase(phase);
    bypassed_before_ = bypassing;
    bypassing_peak = bypassed_before_;
  }
  Measured read() const {
    Measured measured;
    auto const kept = bypassing - bypassed_before_;
    measured.bypassed = bypassing_peak - bypassed_before_;
    measured.kept = kept;
    for (auto const& of_phase : window_->evidence().phases) {
      if (of_phase.phase == phase_) { measured.seen = of_phase.peaks.reserved.count; }
    }
    return measured;
  }

 private:
  std::unique_ptr<maxbatch::TrialWindow> window_;
  maxbatch::Phase phase_;
  std::int64_t bypassed_before_ = 0;
};

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// The first run fills what libraries keep (kernels, packed sizes); the second shows what one more step takes.
void measure(maxbatch::MemoryDevice& device, Operator const& op, at::ScalarType type) {
  for (std::int64_t const batch_size : {4, 16}) {
    auto const forward = op.make(type);
    Measured first[2];
    Measured second[2];
    for (auto* const measured : {first, second}) {
      at::Tensor output;
      {
        Meter const meter(device, maxbatch::Phase::forward);
        output = forward(batch_size);
        measured[0] = meter.read();
      }
      auto const gradient = at::ones_like(output);
      Meter const meter(device, maxbatch::Phase::backward);
      output.backward(gradient);
      measured[1] = meter.read();
    }
    std::printf("| %s | %s | %5lld | %8.2f | %8.2f | %8.2f | %8.2f | %8.2f |\n", op.name.c_str(),
                type == at::kFloat ? "fp32" : "bf16", static_cast<long long>(batch_size), mebibytes(second[0].seen),
                mebibytes(second[0].bypassed), mebibytes(second[1].seen), mebibytes(second[1].bypassed),
                mebibytes(std::max<std::int64_t>(0, first[0].kept) + std::max<std::int64_t>(0, first[1].kept)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(argc > 1 ? std::atoi(argv[1]) : 2);
  torch::manual_seed(0);
  static MarkingAllocator marking(*c10::GetCPUAllocator());
  c10::SetCPUAllocator(&marking);
  auto const device = maxbatch::budgeted_cpu_device();
  device->warm_up();
  std::printf("%d threads, %s; MiB\n\n", at::get_num_threads(), at::get_cpu_capability().c_str());
  std::printf(
      "| operator | type | batch | forward: counted | not counted | backward: counted | not counted | kept after "
      "the first run |\n|---|---|---|---|---|---|---|---|\n");
  for (auto const& op : operators()) {
    measure(*device, op, at::kFloat);
    if (op.has_bf16) { measure(*device, op, at::kBFloat16); }
  }
}
