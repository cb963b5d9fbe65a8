// Asks the CUDA runtime questions whose answers must be the same on a dry card as on a real one, and prints them a line
// each: `question = answer`. The recording of a real card lies in tests/data/dry_cuda/. Needs no nvcc, makes no kernel.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

void say(std::string const& question, long long answer) { std::printf("%s = %lld\n", question.c_str(), answer); }
void say(std::string const& question, CUresult status) { say(question, static_cast<long long>(status)); }
void say(std::string const& question, cudaError_t status) {
  std::printf("%s = %s\n", question.c_str(), cudaGetErrorName(status));
}

void ask_attributes() {
  for (int attribute = 1; attribute < static_cast<int>(cudaDevAttrMax); ++attribute) {
    int value = -1;
    auto const status = cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(attribute), 0);
    auto const question = "attribute " + std::to_string(attribute);
    if (status == cudaSuccess) {
      say(question, value);
    } else {
      say(question, status);
      cudaGetLastError();
    }
  }
}

void ask_properties() {
  cudaDeviceProp properties{};
  say("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, 0));
  std::printf("name = %s\n", properties.name);
#define MAXBATCH_ASK(field) say(#field, static_cast<long long>(properties.field))
  MAXBATCH_ASK(totalGlobalMem);
  MAXBATCH_ASK(sharedMemPerBlock);
  MAXBATCH_ASK(regsPerBlock);
  MAXBATCH_ASK(warpSize);
  MAXBATCH_ASK(memPitch);
  MAXBATCH_ASK(maxThreadsPerBlock);
  MAXBATCH_ASK(maxThreadsDim[0]);
  MAXBATCH_ASK(maxThreadsDim[1]);
  MAXBATCH_ASK(maxThreadsDim[2]);
  MAXBATCH_ASK(maxGridSize[0]);
  MAXBATCH_ASK(maxGridSize[1]);
  MAXBATCH_ASK(maxGridSize[2]);
  MAXBATCH_ASK(totalConstMem);
  MAXBATCH_ASK(major);
  MAXBATCH_ASK(minor);
  MAXBATCH_ASK(textureAlignment);
  MAXBATCH_ASK(texturePitchAlignment);
  MAXBATCH_ASK(multiProcessorCount);
  MAXBATCH_ASK(integrated);
  MAXBATCH_ASK(canMapHostMemory);
  MAXBATCH_ASK(surfaceAlignment);
  MAXBATCH_ASK(concurrentKernels);
  MAXBATCH_ASK(ECCEnabled);
  MAXBATCH_ASK(tccDriver);
  MAXBATCH_ASK(asyncEngineCount);
  MAXBATCH_ASK(unifiedAddressing);
  MAXBATCH_ASK(memoryBusWidth);
  MAXBATCH_ASK(l2CacheSize);
  MAXBATCH_ASK(persistingL2CacheMaxSize);
  MAXBATCH_ASK(maxThreadsPerMultiProcessor);
  MAXBATCH_ASK(streamPrioritiesSupported);
  MAXBATCH_ASK(globalL1CacheSupported);
  MAXBATCH_ASK(localL1CacheSupported);
  MAXBATCH_ASK(sharedMemPerMultiprocessor);
  MAXBATCH_ASK(regsPerMultiprocessor);
  MAXBATCH_ASK(managedMemory);
  MAXBATCH_ASK(isMultiGpuBoard);
  MAXBATCH_ASK(hostNativeAtomicSupported);
  MAXBATCH_ASK(pageableMemoryAccess);
  MAXBATCH_ASK(concurrentManagedAccess);
  MAXBATCH_ASK(computePreemptionSupported);
  MAXBATCH_ASK(canUseHostPointerForRegisteredMem);
  MAXBATCH_ASK(cooperativeLaunch);
  MAXBATCH_ASK(sharedMemPerBlockOptin);
  MAXBATCH_ASK(pageableMemoryAccessUsesHostPageTables);
  MAXBATCH_ASK(directManagedMemAccessFromHost);
  MAXBATCH_ASK(maxBlocksPerMultiProcessor);
  MAXBATCH_ASK(accessPolicyMaxWindowSize);
  MAXBATCH_ASK(reservedSharedMemPerBlock);
  MAXBATCH_ASK(hostRegisterSupported);
  MAXBATCH_ASK(sparseCudaArraySupported);
  MAXBATCH_ASK(hostRegisterReadOnlySupported);
  MAXBATCH_ASK(timelineSemaphoreInteropSupported);
  MAXBATCH_ASK(memoryPoolsSupported);
  MAXBATCH_ASK(gpuDirectRDMASupported);
  MAXBATCH_ASK(gpuDirectRDMAFlushWritesOptions);
  MAXBATCH_ASK(gpuDirectRDMAWritesOrdering);
  MAXBATCH_ASK(memoryPoolSupportedHandleTypes);
  MAXBATCH_ASK(deferredMappingCudaArraySupported);
  MAXBATCH_ASK(ipcEventSupported);
  MAXBATCH_ASK(clusterLaunch);
  MAXBATCH_ASK(unifiedFunctionPointers);
#undef MAXBATCH_ASK
}

void ask_limits() {
  for (int limit = 0; limit < 8; ++limit) {
    std::size_t value = 0;
    auto const status = cudaDeviceGetLimit(&value, static_cast<cudaLimit>(limit));
    auto const question = "limit " + std::to_string(limit);
    if (status == cudaSuccess) {
      say(question, static_cast<long long>(value));
    } else {
      say(question, status);
      cudaGetLastError();
    }
  }
  int least = 0;
  int greatest = 0;
  cudaDeviceGetStreamPriorityRange(&least, &greatest);
  say("least stream priority", least);
  say("greatest stream priority", greatest);
}

void ask_pointer(char const* what, void const* pointer) {
  cudaPointerAttributes attributes{};
  say(std::string("cudaPointerGetAttributes ") + what, cudaPointerGetAttributes(&attributes, pointer));
  say(std::string(what) + " type", static_cast<long long>(attributes.type));
  say(std::string(what) + " device", attributes.device);
  say(std::string(what) + " device pointer is it", attributes.devicePointer == pointer);
  say(std::string(what) + " host pointer is it", attributes.hostPointer == pointer);
  cudaGetLastError();
}

void ask_memory() {
  void* pointer = nullptr;
  say("cudaMalloc(0)", cudaMalloc(&pointer, 0));
  say("cudaMalloc(0) gives null", pointer == nullptr);
  say("cudaFree(null)", cudaFree(nullptr));
  std::size_t free_before = 0;
  std::size_t total = 0;
  say("cudaMemGetInfo", cudaMemGetInfo(&free_before, &total));
  say("total", static_cast<long long>(total));
  std::size_t free_after = 0;
  say("cudaMalloc(3 MiB)", cudaMalloc(&pointer, 3 << 20));
  cudaMemGetInfo(&free_after, &total);
  say("3 MiB take", static_cast<long long>(free_before - free_after));
  ask_pointer("device memory", pointer);
  ask_pointer("inside device memory", static_cast<char*>(pointer) + 100);
  say("cudaMalloc(1 PiB)", cudaMalloc(&pointer, std::size_t{1} << 50));
  say("cudaPeekAtLastError after it", cudaPeekAtLastError());
  say("cudaGetLastError after it", cudaGetLastError());
  say("cudaGetLastError again", cudaGetLastError());
  say("cudaMalloc(nullptr)", cudaMalloc(nullptr, 16));
  cudaGetLastError();
  void* device = nullptr;
  cudaMalloc(&device, 1 << 20);
  say("cudaFree(inside)", cudaFree(static_cast<char*>(device) + 512));
  cudaGetLastError();
  int on_stack = 0;
  say("cudaFree(host)", cudaFree(&on_stack));
  cudaGetLastError();
  say("cudaFree", cudaFree(device));
  say("cudaFree twice", cudaFree(device));
  cudaGetLastError();
  std::vector<char> pageable(1 << 16);
  ask_pointer("pageable memory", pageable.data());
  void* pinned = nullptr;
  say("cudaHostAlloc", cudaHostAlloc(&pinned, 1 << 16, cudaHostAllocDefault));
  ask_pointer("pinned memory", pinned);
  say("cudaFreeHost", cudaFreeHost(pinned));
  say("cudaFreeHost twice", cudaFreeHost(pinned));
  cudaGetLastError();
  void* managed = nullptr;
  say("cudaMallocManaged", cudaMallocManaged(&managed, 1 << 16, cudaMemAttachGlobal));
  ask_pointer("managed memory", managed);
  say("cudaFree(managed)", cudaFree(managed));
  say("cudaHostRegister", cudaHostRegister(pageable.data(), pageable.size(), cudaHostRegisterDefault));
  ask_pointer("registered memory", pageable.data());
  say("cudaHostRegister twice", cudaHostRegister(pageable.data(), pageable.size(), cudaHostRegisterDefault));
  cudaGetLastError();
  say("cudaHostUnregister", cudaHostUnregister(pageable.data()));
  say("cudaHostUnregister twice", cudaHostUnregister(pageable.data()));
  cudaGetLastError();
  cudaMalloc(&device, 256);
  int value = 42;
  int back = 0;
  say("cudaMemcpy to device", cudaMemcpy(device, &value, sizeof(value), cudaMemcpyHostToDevice));
  say("cudaMemcpy to host", cudaMemcpy(&back, device, sizeof(back), cudaMemcpyDeviceToHost));
  say("value came back", back);
  say("cudaMemcpy bad kind", cudaMemcpy(&back, device, sizeof(back), static_cast<cudaMemcpyKind>(77)));
  cudaGetLastError();
  say("cudaMemset", cudaMemset(device, 1, 256));
  say("cudaMemcpy to host after cudaMemset", cudaMemcpy(&back, device, sizeof(back), cudaMemcpyDeviceToHost));
  cudaFree(device);
}

void ask_streams() {
  cudaStream_t stream = nullptr;
  say("cudaStreamCreateWithPriority", cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -99));
  int priority = 7;
  cudaStreamGetPriority(stream, &priority);
  say("priority of -99", priority);
  unsigned flags = 9;
  cudaStreamGetFlags(stream, &flags);
  say("stream flags", flags);
  cudaEvent_t event = nullptr;
  cudaEvent_t untimed = nullptr;
  cudaEvent_t other = nullptr;
  say("cudaEventCreate", cudaEventCreate(&event));
  cudaEventCreate(&other);
  say("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  say("cudaEventCreateWithFlags(bad)", cudaEventCreateWithFlags(&untimed, 0x1000));
  cudaGetLastError();
  float ms = -1;
  say("cudaEventQuery unrecorded", cudaEventQuery(event));
  say("cudaEventElapsedTime unrecorded", cudaEventElapsedTime(&ms, event, other));
  cudaGetLastError();
  say("cudaEventRecord", cudaEventRecord(event, stream));
  say("cudaEventRecord other", cudaEventRecord(other, stream));
  say("cudaStreamSynchronize", cudaStreamSynchronize(stream));
  say("cudaEventElapsedTime", cudaEventElapsedTime(&ms, event, other));
  say("time is not negative", ms >= 0);
  cudaEventRecord(untimed, stream);
  cudaStreamSynchronize(stream);
  say("cudaEventElapsedTime untimed", cudaEventElapsedTime(&ms, event, untimed));
  cudaGetLastError();
  say("cudaEventElapsedTime null", cudaEventElapsedTime(&ms, event, nullptr));
  cudaGetLastError();
  say("cudaStreamQuery", cudaStreamQuery(stream));
  say("cudaStreamWaitEvent", cudaStreamWaitEvent(stream, event, 0));
  cudaStreamCaptureStatus status{};
  say("cudaStreamIsCapturing", cudaStreamIsCapturing(stream, &status));
  say("capturing", static_cast<long long>(status));
  say("cudaStreamBeginCapture legacy stream", cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
  cudaGetLastError();
  say("cudaStreamBeginCapture", cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaStreamIsCapturing(stream, &status);
  say("capturing now", static_cast<long long>(status));
  cudaGraph_t graph = nullptr;
  say("cudaStreamEndCapture", cudaStreamEndCapture(stream, &graph));
  say("cudaStreamEndCapture twice", cudaStreamEndCapture(stream, &graph));
  cudaGetLastError();
  std::size_t nodes = 99;
  say("cudaGraphGetNodes", cudaGraphGetNodes(graph, nullptr, &nodes));
  say("nodes of an empty capture", static_cast<long long>(nodes));
  say("cudaGraphDestroy", cudaGraphDestroy(graph));
  say("cudaStreamDestroy", cudaStreamDestroy(stream));
  say("cudaEventDestroy", cudaEventDestroy(event));
}

void ask_devices() {
  int count = 0;
  say("cudaGetDeviceCount", cudaGetDeviceCount(&count));
  say("devices are there", count > 0);
  int device = 9;
  say("cudaGetDevice", cudaGetDevice(&device));
  say("first device", device);
  say("cudaSetDevice(99)", cudaSetDevice(99));
  say("last error is then", cudaPeekAtLastError());
  std::thread([] { say("last error of another thread", cudaPeekAtLastError()); }).join();
  cudaGetLastError();
  say("cudaSetDevice(-1)", cudaSetDevice(-1));
  cudaGetLastError();
  say("cudaSetDevice(0)", cudaSetDevice(0));
  int value = 0;
  say("cudaDeviceGetAttribute(device 99)", cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99));
  cudaGetLastError();
  say("cudaDeviceGetAttribute(attribute 9999)", cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(9999), 0));
  cudaGetLastError();
  cudaDeviceProp properties{};
  say("cudaGetDeviceProperties(99)", cudaGetDeviceProperties(&properties, 99));
  cudaGetLastError();
  say("cudaDeviceCanAccessPeer(0, 0)", cudaDeviceCanAccessPeer(&value, 0, 0));
  cudaGetLastError();
  say("can access itself", value);
  int runtime = 0;
  say("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&runtime));
  cudaFuncAttributes attributes{};
  say("cudaFuncGetAttributes(no kernel)", cudaFuncGetAttributes(&attributes, &runtime));
  cudaGetLastError();
  dim3 one;
  say("cudaLaunchKernel(no kernel)", cudaLaunchKernel(&runtime, one, one, nullptr, 0, nullptr));
  cudaGetLastError();
  for (auto const* const name : {"cuMemCreate", "cuMemAlloc", "cuDevicePrimaryCtxRelease", "cuNoSuchFunction"}) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    say(std::string("cudaGetDriverEntryPointByVersion ") + name,
        cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result));
    say(std::string(name) + " result", static_cast<long long>(result));
    say(std::string(name) + " found", function != nullptr);
    cudaGetLastError();
  }
}

template <typename Function>
Function driver(char const* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result);
  return reinterpret_cast<Function>(function);
}
#define MAXBATCH_DRIVER(name) driver<decltype(&name)>(#name)

void ask_driver() {
  CUmemAllocationProp property{};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  property.location.id = 0;
  std::size_t granularity = 0;
  say("cuMemGetAllocationGranularity",
      MAXBATCH_DRIVER(cuMemGetAllocationGranularity)(&granularity, &property, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  say("recommended granularity", static_cast<long long>(granularity));
  MAXBATCH_DRIVER(cuMemGetAllocationGranularity)(&granularity, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  say("minimum granularity", static_cast<long long>(granularity));
  CUmemGenericAllocationHandle handle = 0;
  auto const create = MAXBATCH_DRIVER(cuMemCreate);
  say("cuMemCreate(1 MiB)", create(&handle, 1 << 20, &property, 0));
  say("cuMemCreate(1 PiB)", create(&handle, std::size_t{1} << 50, &property, 0));
  std::size_t free_before = 0;
  std::size_t free_after = 0;
  std::size_t total = 0;
  cudaMemGetInfo(&free_before, &total);
  say("cuMemCreate(20 MiB)", create(&handle, 20 << 20, &property, 0));
  cudaMemGetInfo(&free_after, &total);
  say("20 MiB take", static_cast<long long>(free_before - free_after));
  CUdeviceptr address = 0;
  say("cuMemAddressReserve", MAXBATCH_DRIVER(cuMemAddressReserve)(&address, 40 << 20, 0, 0, 0));
  say("cuMemMap", MAXBATCH_DRIVER(cuMemMap)(address, 20 << 20, 0, handle, 0));
  say("cuMemMap there again", MAXBATCH_DRIVER(cuMemMap)(address, 20 << 20, 0, handle, 0));
  CUmemAccessDesc access{};
  access.location = property.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  say("cuMemSetAccess", MAXBATCH_DRIVER(cuMemSetAccess)(address, 20 << 20, &access, 1));
  cudaPointerAttributes attributes{};
  say("cudaPointerGetAttributes mapped",
      cudaPointerGetAttributes(&attributes, reinterpret_cast<void const*>(address)));  // NOLINT: a device address
  say("mapped type", static_cast<long long>(attributes.type));
  say("cuMemUnmap", MAXBATCH_DRIVER(cuMemUnmap)(address, 20 << 20));
  say("cuMemUnmap again", MAXBATCH_DRIVER(cuMemUnmap)(address, 20 << 20));
  say("cuMemRelease", MAXBATCH_DRIVER(cuMemRelease)(handle));
  cudaMemGetInfo(&free_after, &total);
  say("released", free_before == free_after);
  say("cuMemAddressFree", MAXBATCH_DRIVER(cuMemAddressFree)(address, 40 << 20));
  say("cuMemAddressFree again", MAXBATCH_DRIVER(cuMemAddressFree)(address, 40 << 20));
  int device = 7;
  say("cuDeviceGet(0)", MAXBATCH_DRIVER(cuDeviceGet)(&device, 0));
  say("cuDeviceGet(99)", MAXBATCH_DRIVER(cuDeviceGet)(&device, 99));
  unsigned flags = 9;
  int active = 9;
  say("cuDevicePrimaryCtxGetState", MAXBATCH_DRIVER(cuDevicePrimaryCtxGetState)(0, &flags, &active));
  say("context active", active);
  char const* text = nullptr;
  MAXBATCH_DRIVER(cuGetErrorString)(CUDA_ERROR_OUT_OF_MEMORY, &text);
  std::printf("cuGetErrorString(out of memory) = %s\n", text);
  CUcontext context = nullptr;
  say("cuCtxGetCurrent", MAXBATCH_DRIVER(cuCtxGetCurrent)(&context));
  say("context is there", context != nullptr);
}

}  // namespace

int main() {
  ask_devices();
  ask_attributes();
  ask_properties();
  ask_limits();
  ask_memory();
  ask_streams();
  ask_driver();
}
