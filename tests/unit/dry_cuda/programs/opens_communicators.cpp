// What communicators of NCCL take of the card, in bytes, a line each; then whether one can be opened on a full card.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdio>

namespace {

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  cudaMemGetInfo(&free, &total);
  return free;
}

/// Prints what was taken since `before`, and is what is free now.
std::size_t say(char const* what, std::size_t before) {
  auto const now = free_bytes();
  std::printf("%s %lld\n", what, static_cast<long long>(before) - static_cast<long long>(now));
  return now;
}

}  // namespace

int main() {
  cudaFree(nullptr);
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  ncclComm_t first = nullptr;
  ncclComm_t second = nullptr;
  auto free = free_bytes();
  ncclCommInitRank(&first, 1, id, 0);
  free = say("first", free);
  ncclCommInitRank(&second, 1, id, 0);
  free = say("second", free);
  ncclCommDestroy(first);
  ncclCommDestroy(second);
  free = say("destroyed", free);
  void* memory = nullptr;
  cudaMalloc(&memory, free - (std::size_t{64} << 20));
  std::printf("on a full card: %s\n", ncclGetErrorString(ncclCommInitRank(&first, 1, id, 0)));
}
