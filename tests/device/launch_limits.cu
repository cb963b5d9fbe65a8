// What a real card says of launches beyond its limits: nvcc -arch=native launch_limits.cu && ./a.out
#include <cuda_runtime.h>

#include <cstdio>
__global__ void nothing() {}
static void ask(char const* name, dim3 g, dim3 b) {
  void* none[1] = {nullptr};
  cudaError_t e = cudaLaunchKernel((void const*)nothing, g, b, none, 0, 0);
  printf("%s %d %s\n", name, (int)e, cudaGetErrorName(e));
  cudaGetLastError();
  cudaDeviceSynchronize();
}
int main() {
  cudaFree(0);
  ask("legal", dim3(1), dim3(32));
  ask("x=2^31", dim3(2147483648u), dim3(1));
  ask("y=65536", dim3(1, 65536), dim3(1));
  ask("z=65536", dim3(1, 1, 65536), dim3(1));
  ask("x=0", dim3(0), dim3(1));
  ask("y=0", dim3(1, 0), dim3(1));
  ask("z=0", dim3(1, 1, 0), dim3(1));
  ask("threads=1025", dim3(1), dim3(1025));
  ask("block.z=65", dim3(1), dim3(1, 1, 65));
  ask("block.y=1025", dim3(1), dim3(1, 1025));
  ask("threads=2048", dim3(1), dim3(32, 64));
  ask("threads=0", dim3(1), dim3(0));
  ask("block.y=0", dim3(1), dim3(1, 0));
  ask("y and threads", dim3(1, 65536), dim3(1025));
}
