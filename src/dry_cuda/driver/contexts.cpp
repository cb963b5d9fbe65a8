// The driver's own beginnings: devices and the primary context of each.
#include "dry_cuda/activation/environment.hpp"
#include "dry_cuda/card_profile.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/card.hpp"
#include "dry_cuda/memory/host_blocks.hpp"
#include "dry_cuda/runtime/current_device.hpp"
#include "dry_cuda/runtime/device_attributes.hpp"
#include "dry_cuda/runtime/thread_error.hpp"
#include "virtual_mappings.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace maxbatch::dry {
namespace {

std::array<char, kMostDevices> contexts{};  // whose addresses are the primary contexts' handles

bool is_device(int device) { return ready() == cudaSuccess && device >= 0 && device < environment().devices; }

CUcontext primary_context(int device) {
  return reinterpret_cast<CUcontext>(&contexts.at(static_cast<std::size_t>(device)));
}

/// -1: no context of ours.
int device_of(CUcontext context) {
  for (int device = 0; device < environment().devices; ++device) {
    if (primary_context(device) == context) { return device; }
  }
  return -1;
}

thread_local std::vector<int> pushed;  // devices under the current one

CUresult as_driver_result(cudaError_t error) { return static_cast<CUresult>(error); }

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY CUresult cuInit(unsigned) { return as_driver_result(ready()); }
MAXBATCH_DRY_ENTRY CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION / 10 * 10;
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuDeviceGetCount(int* count) {
  *count = ready() == cudaSuccess ? environment().devices : 0;
  return as_driver_result(ready());
}
MAXBATCH_DRY_ENTRY CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!is_device(ordinal)) { return CUDA_ERROR_INVALID_DEVICE; }
  *device = ordinal;
  return as_driver_result(ready());
}
MAXBATCH_DRY_ENTRY CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (!is_device(device)) { return CUDA_ERROR_INVALID_DEVICE; }
  if (name == nullptr || length < 1) { return CUDA_ERROR_INVALID_VALUE; }
  std::snprintf(name, static_cast<std::size_t>(length), "%s", card_profile().name.c_str());
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {
  if (!is_device(device)) { return CUDA_ERROR_INVALID_DEVICE; }
  *bytes = static_cast<std::size_t>(card_profile().total_bytes);
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (!is_device(device)) { return CUDA_ERROR_INVALID_DEVICE; }
  auto const answer = device_attribute(static_cast<int>(attribute), device);
  if (value == nullptr || !answer) { return CUDA_ERROR_INVALID_VALUE; }
  *value = *answer;
  return CUDA_SUCCESS;
}

MAXBATCH_DRY_ENTRY CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (!is_device(device)) { return CUDA_ERROR_INVALID_DEVICE; }
  if (flags != nullptr) { *flags = 0; }
  if (active != nullptr) { *active = Card::exists(device) ? 1 : 0; }
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (!is_device(device)) { return CUDA_ERROR_INVALID_DEVICE; }
  Card::at(device);
  *context = primary_context(device);
  return CUDA_SUCCESS;
}
/// Contexts stay until the process ends.
MAXBATCH_DRY_ENTRY CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

MAXBATCH_DRY_ENTRY CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = Card::exists(current_device()) ? primary_context(current_device()) : nullptr;
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuCtxSetCurrent(CUcontext context) {
  if (context == nullptr) { return CUDA_SUCCESS; }
  auto const device = device_of(context);
  return device < 0 ? CUDA_ERROR_INVALID_CONTEXT : as_driver_result(cudaSetDevice(device));
}
MAXBATCH_DRY_ENTRY CUresult cuCtxPushCurrent(CUcontext context) {
  auto const device = device_of(context);
  if (device < 0) { return CUDA_ERROR_INVALID_CONTEXT; }
  pushed.push_back(current_device());
  return as_driver_result(cudaSetDevice(device));
}
MAXBATCH_DRY_ENTRY CUresult cuCtxPopCurrent(CUcontext* context) {
  if (context != nullptr) { *context = primary_context(current_device()); }
  if (pushed.empty()) { return CUDA_SUCCESS; }
  auto const device = pushed.back();
  pushed.pop_back();
  return as_driver_result(cudaSetDevice(device));
}
MAXBATCH_DRY_ENTRY CUresult cuCtxGetDevice(CUdevice* device) {
  *device = current_device();
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
MAXBATCH_DRY_ENTRY CUresult cuCtxGetLimit(std::size_t* value, CUlimit limit) {
  return as_driver_result(cudaDeviceGetLimit(value, static_cast<cudaLimit>(limit)));
}
MAXBATCH_DRY_ENTRY CUresult cuCtxSetLimit(CUlimit, std::size_t) { return CUDA_SUCCESS; }
MAXBATCH_DRY_ENTRY CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  int device = 0;
  auto const status = cudaStreamGetDevice(stream, &device);
  if (status == cudaSuccess) { *context = primary_context(device); }
  return as_driver_result(status);
}
MAXBATCH_DRY_ENTRY CUresult cuStreamSynchronize(CUstream stream) {
  return as_driver_result(cudaStreamSynchronize(stream));
}

MAXBATCH_DRY_ENTRY CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  auto const* const pointer = reinterpret_cast<void const*>(address);  // NOLINT(performance-no-int-to-ptr)
  cudaPointerAttributes attributes{};
  cudaPointerGetAttributes(&attributes, pointer);
  if (value == nullptr || attributes.type == cudaMemoryTypeUnregistered) { return CUDA_ERROR_INVALID_VALUE; }
  auto const device = card_of_address(pointer);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(value) = primary_context(attributes.device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<CUmemorytype*>(value) =
          attributes.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *static_cast<CUdeviceptr*>(value) = address; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(value) = attributes.device; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(value) = attributes.type == cudaMemoryTypeManaged ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: {
      if (device < 0) { return CUDA_ERROR_INVALID_VALUE; }
      auto const range = Card::at(device).allocation_around(address);
      *static_cast<unsigned long long*>(value) = range ? range->begin : 0;
      return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: {
      if (device < 0) { return CUDA_ERROR_INVALID_VALUE; }
      auto const range = Card::at(device).allocation_around(address);
      *static_cast<std::size_t*>(value) = range ? range->size() : 0;
      return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// The driver's numbers and texts are the runtime's, as far as both have an error.
MAXBATCH_DRY_ENTRY CUresult cuGetErrorString(CUresult error, char const** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuGetErrorName(CUresult error, char const** name) {
  *name = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}
