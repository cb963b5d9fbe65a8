// In place of cuda_device.cpp where LibTorch was built without CUDA.
#include <maxbatch/device/cuda_device.hpp>

#include <string>

namespace maxbatch {

std::shared_ptr<CudaDevice> cuda_device(c10::DeviceIndex index, std::optional<Bytes> /*budget*/) {
  throw DeviceUnavailable("There is no cuda:" + std::to_string(index) +
                          ": this maxbatch was built with a LibTorch that has no CUDA. Build it with a CUDA build of "
                          "LibTorch 2.11, such as the PyPI wheel");
}

}  // namespace maxbatch
