// cuFFT: plans, and how much scratch memory they take.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/libraries/fft_scratch.hpp"
#include "dry_cuda/report/call_notes.hpp"
#include "dry_cuda/report/memory_sources.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <cufftXt.h>

namespace maxbatch::dry {
namespace {

struct Plan {
  bool allocates = true;  ///< its scratch memory itself, as long as nobody says otherwise
  std::size_t scratch_bytes = 0;
  void* own_scratch = nullptr;
};

/// cuFFT's plans are numbers.
class Plans {
 public:
  cufftHandle create() {
    std::lock_guard<std::mutex> const lock(mutex_);
    plans_.emplace(++last_, Plan{});
    return last_;
  }

  /// Does `change` to a plan, under the lock.
  template <typename Change>
  cufftResult with(cufftHandle handle, Change change) {
    std::lock_guard<std::mutex> const lock(mutex_);
    auto const found = plans_.find(handle);
    return found == plans_.end() ? CUFFT_INVALID_PLAN : change(found->second);
  }

  cufftResult destroy(cufftHandle handle) {
    auto const result = with(handle, [](Plan& plan) {
      cudaFree(plan.own_scratch);
      return CUFFT_SUCCESS;
    });
    std::lock_guard<std::mutex> const lock(mutex_);
    plans_.erase(handle);
    return result;
  }

 private:
  std::mutex mutex_;
  cufftHandle last_ = 0;
  std::unordered_map<cufftHandle, Plan> plans_;
};

Plans& plans() {
  static auto* const instance = new Plans;
  return *instance;
}

FourierTransform::Kind kind_of(cufftType type) {
  switch (type) {
    case CUFFT_R2C:
    case CUFFT_D2Z: return FourierTransform::Kind::real_to_complex;
    case CUFFT_C2R:
    case CUFFT_Z2D: return FourierTransform::Kind::complex_to_real;
    default: return FourierTransform::Kind::complex;
  }
}

bool is_double(cufftType type) { return type == CUFFT_D2Z || type == CUFFT_Z2D || type == CUFFT_Z2Z; }

bool is_real(cudaDataType type) {
  return type == CUDA_R_16F || type == CUDA_R_16BF || type == CUDA_R_32F || type == CUDA_R_64F;
}

std::int64_t complex_bytes(cudaDataType type) {
  switch (type) {
    case CUDA_C_64F:
    case CUDA_R_64F: return 16;
    case CUDA_C_32F:
    case CUDA_R_32F: return 8;
    default: return 4;
  }
}

cufftResult make(cufftHandle handle, FourierTransform const& transform, std::size_t* bytes) {
  for (auto const length : transform.lengths) {
    if (length < 1) return CUFFT_INVALID_SIZE;
  }
  if (transform.lengths.empty() || transform.lengths.size() > 3 || transform.batch < 1) return CUFFT_INVALID_SIZE;
  if (!is_supported(transform)) return CUFFT_NOT_SUPPORTED;  // as the real one, whose word LibTorch passes on
  maxbatch_dry_note_defaulted("cufftMakePlan");
  auto const scratch = static_cast<std::size_t>(scratch_of(transform));
  count_scratch_answer(certain(MemorySource::rule, static_cast<std::int64_t>(scratch)));
  if (bytes != nullptr) *bytes = scratch;
  return plans().with(handle, [&](Plan& plan) {
    plan.scratch_bytes = scratch;
    bool const refused = plan.allocates && scratch > 0 && cudaMalloc(&plan.own_scratch, scratch) != cudaSuccess;
    return refused ? CUFFT_ALLOC_FAILED : CUFFT_SUCCESS;
  });
}

FourierTransform transform_of(std::vector<std::int64_t> lengths, cufftType type, std::int64_t batch) {
  return FourierTransform{kind_of(type), is_double(type) ? 16 : 8, std::move(lengths), batch};
}

template <typename Integer>
std::vector<std::int64_t> lengths_of(int rank, Integer const* n) {
  return n == nullptr || rank < 1 ? std::vector<std::int64_t>{} : std::vector<std::int64_t>(n, n + rank);
}

cufftResult create_and_make(cufftHandle* handle, FourierTransform const& transform) {
  if (handle == nullptr) return CUFFT_INVALID_VALUE;
  *handle = plans().create();
  auto const result = make(*handle, transform, nullptr);
  if (result != CUFFT_SUCCESS) plans().destroy(*handle);
  return result;
}

cufftResult accept(cufftHandle handle) {
  return plans().with(handle, [](Plan&) { return CUFFT_SUCCESS; });
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;

MAXBATCH_DRY_ENTRY cufftResult cufftCreate(cufftHandle* handle) {
  if (handle == nullptr) return CUFFT_INVALID_VALUE;
  *handle = plans().create();
  return CUFFT_SUCCESS;
}
MAXBATCH_DRY_ENTRY cufftResult cufftDestroy(cufftHandle handle) { return plans().destroy(handle); }
MAXBATCH_DRY_ENTRY cufftResult cufftSetAutoAllocation(cufftHandle handle, int allocates) {
  return plans().with(handle, [&](Plan& plan) {
    plan.allocates = allocates != 0;
    return CUFFT_SUCCESS;
  });
}
MAXBATCH_DRY_ENTRY cufftResult cufftSetStream(cufftHandle handle, cudaStream_t) { return accept(handle); }
MAXBATCH_DRY_ENTRY cufftResult cufftSetWorkArea(cufftHandle handle, void* memory) {
  return plans().with(handle, [&](Plan& plan) {
    scratch_is_at(certain(MemorySource::rule, static_cast<std::int64_t>(plan.scratch_bytes)), memory);
    return CUFFT_SUCCESS;
  });
}
MAXBATCH_DRY_ENTRY cufftResult cufftGetSize(cufftHandle handle, std::size_t* bytes) {
  return plans().with(handle, [&](Plan& plan) {
    *bytes = plan.scratch_bytes;
    return CUFFT_SUCCESS;
  });
}
MAXBATCH_DRY_ENTRY cufftResult cufftGetVersion(int* version) {
  *version = CUFFT_VERSION;
  return CUFFT_SUCCESS;
}

MAXBATCH_DRY_ENTRY cufftResult cufftXtMakePlanMany(cufftHandle handle, int rank, long long int* n, long long int*,
                                                   long long int, long long int, cudaDataType input, long long int*,
                                                   long long int, long long int, cudaDataType output,
                                                   long long int batch, std::size_t* bytes, cudaDataType) {
  auto const kind = is_real(input)    ? FourierTransform::Kind::real_to_complex
                    : is_real(output) ? FourierTransform::Kind::complex_to_real
                                      : FourierTransform::Kind::complex;
  return make(handle, FourierTransform{kind, complex_bytes(input), lengths_of(rank, n), batch}, bytes);
}
MAXBATCH_DRY_ENTRY cufftResult cufftMakePlanMany(cufftHandle handle, int rank, int* n, int*, int, int, int*, int, int,
                                                 cufftType type, int batch, std::size_t* bytes) {
  return make(handle, transform_of(lengths_of(rank, n), type, batch), bytes);
}
MAXBATCH_DRY_ENTRY cufftResult cufftMakePlanMany64(cufftHandle handle, int rank, long long int* n, long long int*,
                                                   long long int, long long int, long long int*, long long int,
                                                   long long int, cufftType type, long long int batch,
                                                   std::size_t* bytes) {
  return make(handle, transform_of(lengths_of(rank, n), type, batch), bytes);
}
MAXBATCH_DRY_ENTRY cufftResult cufftMakePlan1d(cufftHandle handle, int nx, cufftType type, int batch,
                                               std::size_t* bytes) {
  return make(handle, transform_of({nx}, type, batch), bytes);
}
MAXBATCH_DRY_ENTRY cufftResult cufftMakePlan2d(cufftHandle handle, int nx, int ny, cufftType type, std::size_t* bytes) {
  return make(handle, transform_of({nx, ny}, type, 1), bytes);
}
MAXBATCH_DRY_ENTRY cufftResult cufftMakePlan3d(cufftHandle handle, int nx, int ny, int nz, cufftType type,
                                               std::size_t* bytes) {
  return make(handle, transform_of({nx, ny, nz}, type, 1), bytes);
}
MAXBATCH_DRY_ENTRY cufftResult cufftPlanMany(cufftHandle* handle, int rank, int* n, int*, int, int, int*, int, int,
                                             cufftType type, int batch) {
  return create_and_make(handle, transform_of(lengths_of(rank, n), type, batch));
}
MAXBATCH_DRY_ENTRY cufftResult cufftPlan1d(cufftHandle* handle, int nx, cufftType type, int batch) {
  return create_and_make(handle, transform_of({nx}, type, batch));
}
MAXBATCH_DRY_ENTRY cufftResult cufftPlan2d(cufftHandle* handle, int nx, int ny, cufftType type) {
  return create_and_make(handle, transform_of({nx, ny}, type, 1));
}
MAXBATCH_DRY_ENTRY cufftResult cufftPlan3d(cufftHandle* handle, int nx, int ny, int nz, cufftType type) {
  return create_and_make(handle, transform_of({nx, ny, nz}, type, 1));
}
