#include "failure_text_table.hpp"

#include <algorithm>
#include <iterator>

namespace maxbatch::detail {
namespace {

constexpr auto memory = FailureClass::memory;
constexpr auto host_memory = FailureClass::host_memory;
constexpr auto likely_memory = FailureClass::likely_memory;
constexpr auto size_limit = FailureClass::size_limit;
constexpr auto device_lost = FailureClass::device_lost;
constexpr auto unknown = FailureClass::unknown;

// Note [Order of the failure texts]
// Sticky faults and overflowed sizes come first: their texts may stand beside words about memory, and must never count
// as memory. Host memory comes before device memory, because its texts often contain those of the device. What merely
// usually means memory comes last, the bare words "out of memory" at the very end: anybody may write those.
// Deliberately no row: "cuda", "CUDA error", "NCCL error", shape errors. They are no evidence of anything.
// Two failures of docs/failures.md have no text at all (zeros beyond 2^31 elements; a hang) and cannot be found here.
constexpr FailurePattern kPatterns[] = {
    // Sticky faults. The texts are those of cudaGetErrorString for the codes that the classifier knows, for where the
    // type (and with it the code) was lost on the way.
    {"an illegal memory access was encountered", "", device_lost, true, "often a 32-bit index overflow in a kernel"},
    {"device-side assert triggered", "", device_lost, true, "an index or value out of range in a kernel"},
    {"an illegal instruction was encountered", "", device_lost, true, ""},
    {"misaligned address", "CUDA", device_lost, true, ""},
    {"unspecified launch failure", "", device_lost, true, ""},
    {"the launch timed out and was terminated", "", device_lost, true, "the display's watchdog"},
    {"uncorrectable ECC error encountered", "", device_lost, true, "broken memory cells"},
    {"CUDA-capable device(s) is/are busy or unavailable", "", device_lost, true, "another process owns the device"},
    {"all CUDA-capable devices are busy or unavailable", "", device_lost, true, "another process owns the device"},

    // Sizes that no memory would satisfy, in the words of out-of-memory errors.
    {"Tried to allocate more than 1EB memory", "", size_limit, true, "an overflowed size computation"},
    {"16 EiB", "", size_limit, true, "a negative size"},
    {"17179869184.00 GiB", "", size_limit, true, "a negative size"},

    // Launch and index limits.
    {"CUDA error: invalid configuration argument", "", size_limit, false, "a grid dimension beyond 65535"},
    {"CUDA error: invalid argument", "", size_limit, false, ""},
    {"CUDA error: too many resources requested for launch", "", size_limit, false, ""},
    {"nonzero is not supported for tensors with more than INT_MAX elements", "", size_limit, false, "an index limit"},
    {"only supports output tensors with less than INT_MAX elements", "", size_limit, false, "an index limit"},
    {"can not have more than INT_MAX elements", "", size_limit, false, "an index limit"},
    {"is too big to for CUB", "", size_limit, false, "an index limit"},
    {"canUse32BitIndexMath", "", size_limit, false, "an index limit"},
    {"must fit into 32-bit index math", "", size_limit, false, "an index limit"},
    {"std::bad_array_new_length", "", size_limit, false, "an overflowed array length"},
    {"Invalid buffer size: ", "", size_limit, false, "beyond what one MPS buffer may hold; may be memory"},
    {"CUDNN_STATUS_EXECUTION_FAILED", "", size_limit, false, "a kernel's batch limit, or a device fault"},

    // Host memory.
    {"DefaultCPUAllocator: can't allocate memory", "", host_memory, false, ""},
    {"DefaultCPUAllocator: not enough memory:", "", host_memory, false, ""},
    {"could not allocate pinned host memory", "", host_memory, false, "pinned"},
    {"failed to alloc", "on host", host_memory, false, "pinned"},
    {"CUDA error: out of memory", "HostAlloc", host_memory, false, "pinned"},
    {"CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", "", host_memory, false, "inside cuDNN"},
    {"Cannot allocate memory", "", host_memory, false, "ENOMEM"},
    {"std::bad_alloc", "", host_memory, false, ""},
    {"SIGKILL", "", host_memory, false, "usually the kernel's out-of-memory killer"},

    // Device memory.
    {"CPU out of memory (maxbatch budget)", "", memory, false, "the budget"},
    {"CUDA out of memory encountered on a different rank", "", memory, false, "another rank's"},
    {"CUDA out of memory. Tried to allocate", "", memory, false, ""},
    {"CUDA error: out of memory", "", memory, false, "outside the caching allocator; may be pinned host memory"},
    {"CUDA driver error: out of memory", "", memory, false, "expandable segments or the driver"},
    {"cudaErrorMemoryAllocation", "", memory, false, "outside the caching allocator"},
    {"HIP out of memory", "", memory, false, ""},
    {"HIP error: out of memory", "", memory, false, "outside the caching allocator"},
    {"HSA_STATUS_ERROR_OUT_OF_RESOURCES", "", memory, false, "aborts the process: use a child process"},
    {"XPU out of memory", "", memory, false, ""},
    {"Allocation is out of device memory on current platform.", "", memory, false, ""},
    {"MPS backend out of memory", "", memory, false, ""},
    {"FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed", "", memory, false, ""},
    {"CUDNN_STATUS_ALLOC_FAILED", "", memory, false, "inside cuDNN"},
    {"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "", memory, false, "inside cuDNN"},
    {"CUBLAS_STATUS_ALLOC_FAILED", "", memory, false, "a handle or workspace of cuBLAS"},
    {"CUFFT_ALLOC_FAILED", "", memory, false, "a plan's workspace of cuFFT"},
    {"CUSOLVER_STATUS_ALLOC_FAILED", "", memory, false, "a workspace of cuSOLVER"},
    {"Failed to CUDA calloc", "", memory, false, "a communicator's buffers, starved by the caching allocator"},
    {"Cuda failure 'out of memory'", "", memory, false, "a communicator's buffers, starved by the caching allocator"},

    // Wrappers that hide what happened: only the device's own evidence tells.
    {"run_func_(", "model_container_runner", unknown, false, "AOTInductor hides the cause"},

    // Usually memory.
    {"Unable to find a valid cuDNN algorithm to run convolution", "", likely_memory, false,
     "no algorithm's workspace fits"},
    {"GET was unable to find an engine to execute this computation", "", likely_memory, false,
     "no engine's workspace fits"},
    {"FIND was unable to find an engine", "", likely_memory, false, "no engine's workspace fits"},
    {"unable to find an engine", "", likely_memory, false, "no engine's workspace fits"},
    {"CUDNN_STATUS_NOT_SUPPORTED", "", likely_memory, false, "may be a shape limit"},
    {"CUDNN_STATUS_INTERNAL_ERROR", "", likely_memory, false, "may be a faulty card"},
    {"CUBLAS_STATUS_NOT_INITIALIZED", "", likely_memory, false, "a handle could not be made"},
    {"CUBLAS_STATUS_INTERNAL_ERROR", "", likely_memory, false, ""},
    {"CUBLAS_STATUS_EXECUTION_FAILED", "", likely_memory, false, ""},
    {"cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR", "", likely_memory, false, ""},
    {"cuFFT error: CUFFT_INTERNAL_ERROR", "", likely_memory, false, ""},
    {"INTERNAL ASSERT FAILED", "CUDACachingAllocator", likely_memory, false, "the allocator may be unusable now"},
    {"ncclUnhandledCudaError", "", likely_memory, false, "a CUDA failure inside NCCL; its cause is not in the text"},
    {"unhandled cuda error", "", likely_memory, false, "a CUDA failure inside NCCL; its cause is not in the text"},
    {"UR_RESULT_ERROR", "", likely_memory, false, ""},
    {"UR error", "", likely_memory, false, ""},
    {"out of memory", "", likely_memory, false, "words of unknown origin"},
    {"Out of memory", "", likely_memory, false, "words of unknown origin"},
};

bool is_in(std::string_view text, FailurePattern const& pattern) {
  return text.find(pattern.text) != std::string_view::npos && text.find(pattern.also) != std::string_view::npos;
}

}  // namespace

FailurePatterns failure_patterns() { return {std::begin(kPatterns), std::size(kPatterns)}; }

FailurePattern const* find_failure_pattern(std::string_view text) {
  auto const* const found = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                         [text](auto const& pattern) { return is_in(text, pattern); });
  return found == std::end(kPatterns) ? nullptr : found;
}

}  // namespace maxbatch::detail
