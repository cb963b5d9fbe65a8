// NCCL: a communicator of any size of which this process is one rank, so that one process can stand for any of many.
// Nothing is sent and nobody is waited for. What a collective leaves behind is unknown, except where it only moves bytes that
// this rank knows: frameworks compare shapes and settings that way, and would give up over a difference.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/card.hpp"
#include "dry_cuda/memory/known_bytes.hpp"
#include "dry_cuda/policies/policy_hooks.hpp"
#include "dry_cuda/report/call_notes.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

struct ncclComm {
  int ranks = 1;
  int rank = 0;
  int device = 0;
};

namespace maxbatch::dry {
namespace {

std::size_t element_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

ncclResult_t make(ncclComm_t* communicator, int ranks, int rank, int device) {
  if (communicator == nullptr || ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  if (!Card::at(device).open_communicator()) return ncclUnhandledCudaError;
  *communicator = new ncclComm{ranks, rank, device};
  return ncclSuccess;
}

ncclResult_t make(ncclComm_t* communicator, int ranks, int rank) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return ncclUnhandledCudaError;
  return make(communicator, ranks, rank, device);
}

ncclResult_t destroy(ncclComm_t communicator) {
  if (communicator == nullptr) return ncclSuccess;
  Card::at(communicator->device).close_communicator();
  delete communicator;
  return ncclSuccess;
}

char* moved(void* pointer, std::size_t bytes) { return static_cast<char*>(pointer) + bytes; }

/// The reduction of one rank's values is those values; of several, it is unknown.
ncclResult_t reduce(void const* send, void* receive, std::size_t bytes, ncclComm_t communicator) {
  if (communicator == nullptr) return ncclInvalidArgument;
  if (communicator->ranks > 1) {
    forget_bytes(receive, bytes);
  } else if (send != receive) {
    move_known_bytes(receive, send, bytes);
  }
  tell_anything_written();
  return ncclSuccess;
}

/// Every rank's part is taken to be as this rank's: a rank that differs would be an error in most programs that look.
ncclResult_t gather(void const* send, void* receive, std::size_t bytes, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    char* const part = moved(receive, bytes * static_cast<std::size_t>(rank));
    if (part != send) move_known_bytes(part, send, bytes);
  }
  tell_anything_written();
  return ncclSuccess;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;

MAXBATCH_DRY_ENTRY ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  std::memset(id, 1, sizeof *id);  // no rank asks for another one's
  return ncclSuccess;
}
MAXBATCH_DRY_ENTRY char const* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "not supported on a dry card";
    default: return "unknown result code";
  }
}
MAXBATCH_DRY_ENTRY char const* ncclGetLastError(ncclComm_t) { return ""; }

MAXBATCH_DRY_ENTRY ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId, int rank) {
  return make(communicator, ranks, rank);
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId, int rank,
                                                       ncclConfig_t*) {
  return make(communicator, ranks, rank);
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommInitRankScalable(ncclComm_t* communicator, int ranks, int rank, int,
                                                         ncclUniqueId*, ncclConfig_t*) {
  return make(communicator, ranks, rank);
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int count, int const* devices) {
  for (int i = 0; i < count; ++i) {
    auto const result = make(&communicators[i], count, i, devices == nullptr ? i : devices[i]);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}
// Who else has this colour is not known; a rank alone in its part would change what a program does least, and a part as large
// as the whole is what data-parallel programs make.
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommSplit(ncclComm_t communicator, int color, int, ncclComm_t* part,
                                              ncclConfig_t*) {
  if (communicator == nullptr || part == nullptr) return ncclInvalidArgument;
  if (color == NCCL_SPLIT_NOCOLOR) {
    *part = nullptr;
    return ncclSuccess;
  }
  return make(part, communicator->ranks, communicator->rank);
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommDestroy(ncclComm_t communicator) { return destroy(communicator); }
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommAbort(ncclComm_t communicator) { return destroy(communicator); }
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommCount(ncclComm_t communicator, int* count) {
  if (communicator == nullptr || count == nullptr) return ncclInvalidArgument;
  *count = communicator->ranks;
  return ncclSuccess;
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommUserRank(ncclComm_t communicator, int* rank) {
  if (communicator == nullptr || rank == nullptr) return ncclInvalidArgument;
  *rank = communicator->rank;
  return ncclSuccess;
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommCuDevice(ncclComm_t communicator, int* device) {
  if (communicator == nullptr || device == nullptr) return ncclInvalidArgument;
  *device = communicator->device;
  return ncclSuccess;
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  if (error == nullptr) return ncclInvalidArgument;
  *error = ncclSuccess;
  return ncclSuccess;
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommRegister(ncclComm_t, void* buffer, std::size_t, void** handle) {
  if (handle == nullptr) return ncclInvalidArgument;
  *handle = buffer;
  return ncclSuccess;
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclCommDeregister(ncclComm_t, void*) { return ncclSuccess; }

// NOLINTBEGIN(readability-identifier-naming): NCCL's names
// Communication begun by kernels. Declared in NCCL's header for device code, which only nvcc reads.
MAXBATCH_DRY_ENTRY ncclResult_t ncclDevCommCreate(ncclComm_t, void const*, void*) {
  return refuse("ncclDevCommCreate", ncclInvalidUsage);
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclDevCommDestroy(ncclComm_t, void const*) {
  return refuse("ncclDevCommDestroy", ncclInvalidUsage);
}
// NOLINTEND(readability-identifier-naming)

MAXBATCH_DRY_ENTRY ncclResult_t ncclMemAlloc(void** pointer, std::size_t bytes) {
  return cudaMalloc(pointer, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclMemFree(void* pointer) {
  return cudaFree(pointer) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

MAXBATCH_DRY_ENTRY ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* operation, void*, ncclDataType_t,
                                                         ncclScalarResidence_t, ncclComm_t) {
  if (operation == nullptr) return ncclInvalidArgument;
  *operation = static_cast<ncclRedOp_t>(ncclNumOps);  // the first that is none of NCCL's own
  return ncclSuccess;
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) { return ncclSuccess; }

MAXBATCH_DRY_ENTRY ncclResult_t ncclAllReduce(void const* send, void* receive, std::size_t count, ncclDataType_t type,
                                              ncclRedOp_t, ncclComm_t communicator, cudaStream_t) {
  return reduce(send, receive, count * element_bytes(type), communicator);
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclReduce(void const* send, void* receive, std::size_t count, ncclDataType_t type,
                                           ncclRedOp_t, int, ncclComm_t communicator, cudaStream_t) {
  return reduce(send, receive, count * element_bytes(type), communicator);
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclReduceScatter(void const* send, void* receive, std::size_t count,
                                                  ncclDataType_t type, ncclRedOp_t, ncclComm_t communicator,
                                                  cudaStream_t) {
  return reduce(send, receive, count * element_bytes(type), communicator);
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclAllGather(void const* send, void* receive, std::size_t count, ncclDataType_t type,
                                              ncclComm_t communicator, cudaStream_t) {
  if (communicator == nullptr) return ncclInvalidArgument;
  return gather(send, receive, count * element_bytes(type), communicator->ranks);
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclBroadcast(void const* send, void* receive, std::size_t count, ncclDataType_t type,
                                              int, ncclComm_t, cudaStream_t) {
  if (send != nullptr && send != receive) move_known_bytes(receive, send, count * element_bytes(type));
  tell_anything_written();
  return ncclSuccess;
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclBcast(void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return ncclSuccess;
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int, ncclComm_t,
                                         cudaStream_t) {
  forget_bytes(receive, count * element_bytes(type));
  tell_anything_written();
  return ncclSuccess;
}
MAXBATCH_DRY_ENTRY ncclResult_t ncclAlltoAll(void const*, void* receive, std::size_t count, ncclDataType_t type,
                                             ncclComm_t communicator, cudaStream_t) {
  if (communicator == nullptr) return ncclInvalidArgument;
  forget_bytes(receive, count * element_bytes(type) * static_cast<std::size_t>(communicator->ranks));
  tell_anything_written();
  return ncclSuccess;
}
