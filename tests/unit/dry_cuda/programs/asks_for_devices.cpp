// Asks CUDA's runtime how many devices there are. Built with the runtime in a library of its own, and with it inside.
#include <cuda_runtime_api.h>

#include <cstdio>

int main(int argc, char** argv) {
  int devices = 0;
  auto const status = cudaGetDeviceCount(&devices);
  std::printf("%d arguments, the last %s: status %d, devices %d\n", argc - 1, argv[argc - 1], static_cast<int>(status),
              devices);
  return 0;
}
