// Makes a descriptor of cuDNN's, which a dry card lets the real cuDNN do.
#include <cudnn_backend.h>

#include <cstdio>

int main() {
  cudnnBackendDescriptor_t descriptor = nullptr;
  auto const status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor);
  std::printf("status %d\n", static_cast<int>(status));
  return 0;
}
