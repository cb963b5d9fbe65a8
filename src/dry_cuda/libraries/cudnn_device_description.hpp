#pragma once

#include "dry_cuda/card_profile.hpp"

#include <cudnn_backend.h>

#include <string>

namespace maxbatch::dry {

/// The card in the words of cuDNN's public device description (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
std::string device_description_json(CardProfile const& card);

/// This process's card for the real cuDNN, which plans without a device when it is given one. Made once; null if cuDNN refuses
/// it, which is said once on standard error. Any thread.
cudnnBackendDescriptor_t device_description();

}  // namespace maxbatch::dry
