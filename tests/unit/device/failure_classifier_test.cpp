#include "device/failure_text_table.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/device/failure_classifier.hpp>

#include <torch/script.h>
#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace maxbatch::test {
namespace {

using namespace maxbatch::literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

bool alive() { return true; }
bool dead() { return false; }

Failure failure_with_text(std::string text) { return describe_failure(std::runtime_error(std::move(text))); }

TrialEvidence with_free(Bytes free) {
  TrialEvidence evidence;
  evidence.free_at_failure = free;
  return evidence;
}

TrialEvidence with_refused_request() {
  auto evidence = with_free(300_GiB);
  evidence.out_of_memory_events = 1;
  evidence.failed_request = FailedRequest{Phase::backward, 2_MiB, std::nullopt, std::nullopt};
  return evidence;
}

std::string in_torch_script(std::string const& text) {
  return "The following operation failed in the TorchScript interpreter.\n"
         "Traceback of TorchScript (most recent call last):\n"
         "  File \"<string>\", line 3, in forward\n"
         "        return torch.conv2d(x, w)\n"
         "               ~~~~~~~~~~~~ <--- HERE\n"
         "RuntimeError: " +
         text + "\n";
}

struct Sample {
  Verdict verdict;
  std::string text;
};

constexpr auto memory = Verdict::out_of_memory;
constexpr auto host_memory = Verdict::out_of_host_memory;
constexpr auto likely = Verdict::likely_out_of_memory;
constexpr auto size_limit = Verdict::size_limit;
constexpr auto lost = Verdict::device_lost;
constexpr auto other = Verdict::failed;

/// Every text of docs/failures.md, sections 1 and 2, within a message as its users saw it, and what other messages must
/// not be taken for.
std::vector<Sample> samples() {
  return {
      // Section 1.
      {memory,
       "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 10.45 GiB of which 12.00 MiB is "
       "free. Including non-PyTorch memory, this process has 10.43 GiB memory in use."},
      {memory, "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call"},
      {memory, "CUDA driver error: out of memory"},
      {memory, "CUDA out of memory encountered on a different rank"},
      {memory, "HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.98 GiB"},
      {memory, "HIP error: out of memory\nHIP kernel errors might be asynchronously reported"},
      {memory, "XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 15.56 GiB."},
      {memory, "Native API failed. Native API returns: 39. Allocation is out of device memory on current platform."},
      {likely, "level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)"},
      {likely, "UR backend failed. UR backend returns:40 (UR error)"},
      {memory,
       "MPS backend out of memory (MPS allocated: 17.91 GB, other allocations: 88.27 MB, max allowed: 18.13 GB)"},
      {size_limit, "Invalid buffer size: 17.45 GB"},
      {memory, "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::939524096 (896)MB"},
      {host_memory,
       "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
       "allocate "
       "549755813888 bytes. Error code 12 (Cannot allocate memory)"},
      {host_memory,
       "[enforce fail at alloc_cpu.cpp:80] data. DefaultCPUAllocator: not enough memory: you tried to "
       "allocate 34359738368 bytes."},
      {likely,
       "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input."},
      {likely,
       "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR\nYou can try to repro this exception using the following code"},
      {likely, "cuDNN Frontend error: [cudnn_frontend] Error: unable to find an engine for this graph"},
      {memory, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"},
      {likely, "cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`"},
      {likely, "cuFFT error: CUFFT_INTERNAL_ERROR"},
      {other,
       "run_func_( container_handle_, input_handles.data()) API call failed at "
       "torch/csrc/inductor/aoti_runner/model_container_runner.cpp, line 145"},
      {size_limit,
       "nonzero is not supported for tensors with more than INT_MAX elements, See "
       "https://github.com/pytorch/pytorch/issues/51871"},

      // Section 2.
      {likely, "Unable to find a valid cuDNN algorithm to run convolution"},
      {likely, "GET was unable to find an engine to execute this computation"},
      {likely, "FIND was unable to find an engine to execute this computation after trying 3 plans."},
      {memory, "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"},
      {host_memory, "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
      {memory, "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"},
      {size_limit, "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"},
      {likely, "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"},
      {likely, "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasSgemm( handle, opa, opb, m, n, k)`"},
      {likely, "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb, m, n, k)`"},
      {memory, "cuFFT error: CUFFT_ALLOC_FAILED"},
      {memory, "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnSgetrf( handle, m, n)`"},
      {likely,
       "NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL "
       "version 2.21.5"},
      {likely, "ncclUnhandledCudaError: Call to CUDA function failed."},
      {memory,
       "NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled cuda error, NCCL version 2.26.2\nncclUnhandledCudaError: "
       "Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc async 608 bytes"},
      {memory, "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'out of memory'"},
      {size_limit,
       "CUDA error: invalid configuration argument\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side "
       "assertions."},
      {size_limit, "CUDA error: invalid argument"},
      {size_limit, "CUDA error: too many resources requested for launch"},
      {lost,
       "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at "
       "some other API call"},
      {lost, "NCCL error: unhandled cuda error\nLast error:\nCuda failure 'an illegal memory access was encountered'"},
      {size_limit, "iter.can_use_32bit_indexing() || canUse32BitIndexMath(input) INTERNAL ASSERT FAILED"},
      {size_limit, "input tensor must fit into 32-bit index math"},
      {size_limit, "upsample_nearest_nhwc only supports output tensors with less than INT_MAX elements"},
      {size_limit, "CUDA out of memory. Tried to allocate more than 1EB memory."},
      {size_limit, "CUDA out of memory. Tried to allocate 17179869184.00 GiB (GPU 0; 7.93 GiB total capacity)"},
      {size_limit, "CUDA out of memory. Tried to allocate 16 EiB"},
      {host_memory, "std::bad_alloc"},
      {host_memory, "unable to mmap 1024 bytes from file: Cannot allocate memory (12)"},
      {host_memory, "the worker was ended by signal 9 (SIGKILL)"},
      {likely,
       "!block->expandable_segment_ INTERNAL ASSERT FAILED at \"c10/cuda/CUDACachingAllocator.cpp\":1128, please "
       "report "
       "a bug to PyTorch."},
      {memory, "HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources."},
      {host_memory, "could not allocate pinned host memory of size: 2304"},
      {host_memory, "failed to alloc 8589934592 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory"},
      {host_memory, "CUDA error: out of memory (cudaHostAlloc of 1073741824 bytes)"},

      // Beyond the document: our own, sticky faults whose code was lost with the type, and words of unknown origin.
      {memory, "CPU out of memory (maxbatch budget). Tried to allocate 2 MiB (2097152 bytes) in phase backward"},
      {memory, "after reduction step 1: cudaErrorMemoryAllocation: out of memory"},
      {lost, "CUDA error: device-side assert triggered"},
      {lost, "CUDA error: an illegal instruction was encountered"},
      {lost, "CUDA error: misaligned address"},
      {lost, "CUDA error: unspecified launch failure"},
      {lost, "CUDA error: the launch timed out and was terminated"},
      {lost, "CUDA error: uncorrectable ECC error encountered"},
      {lost, "CUDA error: CUDA-capable device(s) is/are busy or unavailable"},
      {lost, "CUDA error: all CUDA-capable devices are busy or unavailable"},
      {size_limit, "The dimension being sorted can not have more than INT_MAX elements."},
      {size_limit, "num_inp 2147483653 is too big to for CUB"},
      {size_limit, "std::bad_array_new_length"},
      {likely, "my renderer is out of memory"},
      {likely, "Out of memory in the mesh builder"},

      // What must never count as memory.
      {other, "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"},
      {other, "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"},
      {other, "CUDA error: no kernel image is available for execution on the device"},
      {other, "CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm( handle, opa, opb, m, n, k)`"},
      {other, "NCCL error in: ProcessGroupNCCL.cpp:1970, invalid usage, NCCL version 2.21.5"},
      {other, "cuda"},
      {other, "the memory of the replay buffer is empty"},
      {other, "Expected more than 1 value per channel when training, got input size [1, 64, 1, 1]"},
      {other, ""},
  };
}

// Loops rather than parameters: under ctest each case is a process that loads LibTorch.

TEST(FailureTexts, AreClassifiedWithLittleFreeMemory) {
  for (auto const& [verdict, text] : samples()) {
    SCOPED_TRACE(text);
    auto const classification = classify(failure_with_text(text), with_free(12_MiB), alive);
    EXPECT_EQ(classification.verdict, verdict) << classification.reason;
    EXPECT_THAT(classification.reason, HasSubstr("std::runtime_error"));
    EXPECT_LE(classification.reason.size(), kLongestReason);
  }
}

TEST(FailureTexts, LikelyOnesAreNoMemoryFailuresWithMuchFreeOrWithoutEvidence) {
  for (auto const& [verdict, text] : samples()) {
    SCOPED_TRACE(text);
    auto const expected = verdict == likely ? other : verdict;
    for (auto const& evidence : {with_free(40_GiB), TrialEvidence{}}) {
      auto const classification = classify(failure_with_text(text), evidence, alive);
      EXPECT_EQ(classification.verdict, expected) << classification.reason;
      if (verdict == likely) {
        EXPECT_THAT(classification.reason, StartsWith("library failure, cause unknown"));
        EXPECT_THAT(classification.reason, HasSubstr(evidence.free_at_failure ? "free" : "free memory unknown"));
      }
    }
  }
}

TEST(FailureTexts, AreFoundInsideTorchScriptsWrapping) {
  for (auto const& [verdict, text] : samples()) {
    SCOPED_TRACE(text);
    EXPECT_EQ(classify(failure_with_text(in_torch_script(text)), with_free(12_MiB), alive).verdict, verdict);
  }
}

TEST(FailureTexts, AreFoundInNestedCauses) {
  for (auto const& [verdict, text] : samples()) {
    SCOPED_TRACE(text);
    try {
      try {
        throw std::runtime_error(text);
      } catch (...) { std::throw_with_nested(std::logic_error("training stopped in epoch 3")); }
    } catch (std::exception const& error) {
      EXPECT_EQ(classify(describe_failure(error), with_free(12_MiB), alive).verdict, verdict);
    }
  }
}

TEST(FailureTexts, AreMemoryBesideARefusedRequestUnlessTheyCannotBe) {
  for (auto const& [verdict, text] : samples()) {
    SCOPED_TRACE(text);
    auto const classification = classify(failure_with_text(text), with_refused_request(), alive);
    auto const* const pattern = detail::find_failure_pattern(text);
    bool const overrules = pattern != nullptr && pattern->overrules_evidence;
    EXPECT_EQ(classification.verdict, overrules ? verdict : memory) << classification.reason;
  }
}

TEST(FailureTexts, AreOverruledByADeadDeviceButKeptInTheReason) {
  for (auto const& [verdict, text] : samples()) {
    SCOPED_TRACE(text);
    auto const classification = classify(failure_with_text(text), with_free(12_MiB), dead);
    EXPECT_EQ(classification.verdict, lost);
    EXPECT_THAT(classification.reason,
                HasSubstr("std::runtime_error: " + text.substr(0, std::min<std::size_t>(20, text.find('\n')))));
    EXPECT_LE(classification.reason.size(), kLongestReason);
  }
}

TEST(FailureTextTable, HasNoRowThatNoSampleReaches) {
  std::set<detail::FailurePattern const*> reached;
  for (auto const& sample : samples()) { reached.insert(detail::find_failure_pattern(sample.text)); }
  for (auto const& pattern : detail::failure_patterns()) {
    EXPECT_TRUE(reached.count(&pattern)) << "dead, or without a sample: " << pattern.text;
  }
}

TEST(FailureTextTable, AsksForWhatOverrulesEvidenceFirst) {
  bool may_overrule = true;
  for (auto const& pattern : detail::failure_patterns()) {
    may_overrule = may_overrule && pattern.overrules_evidence;
    EXPECT_EQ(pattern.overrules_evidence, may_overrule) << pattern.text;
  }
}

Failure accelerator_failure(int code, std::string const& text = "CUDA error: something") {
  return describe_failure(c10::AcceleratorError({"f", "file", 1}, code, text));
}

TEST(ClassifyByType, OutOfMemoryErrorIsMemoryWhateverItSays) {
  c10::OutOfMemoryError const error({"f", "file", 1}, "a text of their own");
  auto const classification = classify(describe_failure(error), TrialEvidence{}, alive);
  EXPECT_EQ(classification.verdict, memory);
  EXPECT_EQ(classification.reason, "out of memory, by its type: c10::OutOfMemoryError: a text of their own");
}

TEST(ClassifyByType, AnOverflowedSizeIsNoMemoryFailureInSpiteOfItsType) {
  c10::OutOfMemoryError const error({"f", "file", 1}, "CUDA out of memory. Tried to allocate more than 1EB memory.");
  EXPECT_EQ(classify(describe_failure(error), with_refused_request(), alive).verdict, size_limit);
}

TEST(ClassifyByType, BadAllocIsHostMemory) {
  EXPECT_EQ(classify(describe_failure(std::bad_alloc()), TrialEvidence{}, alive).verdict, host_memory);
  EXPECT_EQ(classify(describe_failure(std::bad_array_new_length()), TrialEvidence{}, alive).verdict, size_limit);
}

TEST(ClassifyByType, NestedTypesCountToo) {
  try {
    try {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "full");
    } catch (...) { std::throw_with_nested(std::runtime_error("could not run layer 4")); }
  } catch (std::exception const& error) {
    EXPECT_EQ(classify(describe_failure(error), TrialEvidence{}, alive).verdict, memory);
  }
}

TEST(ClassifyByCode, FollowsTheDocument) {
  for (int const code : {2}) { EXPECT_EQ(classify(accelerator_failure(code), {}, alive).verdict, memory) << code; }
  for (int const code : {1, 9, 701}) {
    EXPECT_EQ(classify(accelerator_failure(code), {}, alive).verdict, size_limit) << code;
  }
  for (int const code : {46, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719}) {
    auto const classification = classify(accelerator_failure(code), {}, alive);
    EXPECT_EQ(classification.verdict, lost) << code;
    EXPECT_THAT(classification.reason, HasSubstr("(error code " + std::to_string(code) + ")"));
  }
  for (int const code : {3, 100, 209, 703}) {
    EXPECT_EQ(classify(accelerator_failure(code), {}, alive).verdict, other) << code;
  }
}

TEST(ClassifyByCode, TellsPinnedHostMemoryFromDeviceMemory) {
  EXPECT_EQ(classify(accelerator_failure(2, "could not allocate pinned host memory"), {}, alive).verdict, host_memory);
}

TEST(ClassifyByCode, StickyFaultsStayStickyBesideARefusedRequest) {
  EXPECT_EQ(classify(accelerator_failure(700), with_refused_request(), alive).verdict, lost);
  EXPECT_EQ(classify(accelerator_failure(9), with_refused_request(), alive).verdict, size_limit);
}

TEST(Classify, SaysWhatTheDeviceRefused) {
  auto const classification = classify(failure_with_text("gave up"), with_refused_request(), alive);
  EXPECT_EQ(classification.reason,
            "out of memory, as the device refused 1 request, the last for 2 MiB in phase backward; the step failed "
            "with: std::runtime_error: gave up");
}

TEST(Classify, LittleFreeMemoryIsInclusive) {
  auto const failure = failure_with_text("Unable to find a valid cuDNN algorithm to run convolution");
  EXPECT_EQ(classify(failure, with_free(kLittleFreeMemory), alive).verdict, likely);
  EXPECT_EQ(classify(failure, with_free(kLittleFreeMemory + 1_B), alive).verdict, other);
}

TEST(Classify, AsksWhetherTheDeviceLivesOnceAndLast) {
  int asked = 0;
  auto const count = [&] {
    ++asked;
    return true;
  };
  classify(accelerator_failure(700), {}, count);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(classify(failure_with_text("x"), {}, [&]() -> bool { throw std::runtime_error("no answer"); }).verdict,
            lost);
  EXPECT_EQ(classify(failure_with_text("x"), {}, nullptr).verdict, other) << "nobody to ask";
}

TEST(Classify, CopesWithFailuresThatSayNothing) {
  EXPECT_EQ(classify(Failure{}, {}, alive).verdict, other);
  EXPECT_EQ(classify(Failure{}, with_refused_request(), alive).verdict, memory);
  try {
    throw 1;
  } catch (...) {
    auto const classification = classify(describe_unknown_failure(), {}, alive);
    EXPECT_EQ(classification.verdict, other);
    EXPECT_EQ(classification.reason, "not about memory: int: not a std::exception");
  }
}

TEST(Classify, KeepsReasonsShort) {
  auto const classification = classify(failure_with_text(std::string(5000, 'x')), with_refused_request(), dead);
  EXPECT_EQ(classification.reason.size(), kLongestReason);
  EXPECT_THAT(classification.reason, StartsWith("the device no longer answers; before: out of memory"));
}

/// A real scripted function, over a real budget: the type is lost on the way.
TEST(Classify, AScriptedFunctionOverBudgetIsMemory) {
  auto const script = torch::jit::compile("def grow(x):\n    y = x.repeat([1000, 1000])\n    return y.sum()\n");
  auto const device = budgeted_cpu_device(1_MiB);
  auto const window = device->open_trial();
  window->enter_phase(Phase::forward);
  auto const x = at::ones({8, 8});
  try {
    script->run_method("grow", x);
    FAIL() << "256 MB under a budget of one";
  } catch (std::exception const& error) {
    EXPECT_EQ(dynamic_cast<c10::OutOfMemoryError const*>(&error), nullptr) << "TorchScript keeps the type now?";
    auto const failure = describe_failure(error);
    auto const by_witness = classify(failure, window->evidence(), alive);
    EXPECT_EQ(by_witness.verdict, memory);
    EXPECT_THAT(by_witness.reason, HasSubstr("the device refused 1 request"));
    EXPECT_THAT(by_witness.reason, HasSubstr("CPU out of memory (maxbatch budget)"));
    auto const by_text = classify(failure, TrialEvidence{}, alive);
    EXPECT_EQ(by_text.verdict, memory);
    EXPECT_THAT(by_text.reason, StartsWith("out of memory, by its text (the budget)"));
  }
  EXPECT_EQ(window->still_allocated(), 512_B) << "x; the failure kept nothing";
}

}  // namespace
}  // namespace maxbatch::test
