#include <maxbatch/models/state_dict.hpp>
#include <maxbatch/models/torchvision_module.hpp>

#include <torch/torch.h>

#include <vector>

namespace maxbatch::models {

void TorchvisionModule::load_weights(std::string const& file) {
  // A frozen norm counts nothing; files may hold the counters of the norm that it was.
  std::vector<std::string> derived;
  if (norm_ == NormKind::frozen) { derived.emplace_back("num_batches_tracked"); }
  load_state_dict(*this, file, derived);
}

void TorchvisionModule::to(c10::Device device, c10::ScalarType dtype, bool non_blocking) {
  Module::to(device, non_blocking);
  to(dtype, non_blocking);
}

void TorchvisionModule::to(c10::ScalarType dtype, bool non_blocking) {
  for (auto& parameter : parameters()) { parameter.set_data(parameter.to(dtype, non_blocking)); }
  for (auto& buffer : buffers()) {
    if (buffer.is_floating_point()) { buffer.set_data(buffer.to(dtype, non_blocking)); }
  }
}

}  // namespace maxbatch::models
