#include "autocast_guard.hpp"

#include <ATen/autocast_mode.h>

namespace maxbatch::models {

AutocastGuard::AutocastGuard(Precision precision, c10::Device device)
    : device_type_(device.type()),
      autocast_before_(at::autocast::is_autocast_enabled(device_type_)),
      dtype_before_(at::autocast::get_autocast_dtype(device_type_)) {
  at::autocast::increment_nesting();
  auto const is_half = precision == Precision::bf16 || precision == Precision::fp16;
  at::autocast::set_autocast_enabled(device_type_, is_half);
  if (is_half) {
    at::autocast::set_autocast_dtype(device_type_, precision == Precision::bf16 ? at::kBFloat16 : at::kHalf);
  }
}

AutocastGuard::~AutocastGuard() {
  if (at::autocast::decrement_nesting() == 0) { at::autocast::clear_cache(); }
  at::autocast::set_autocast_dtype(device_type_, dtype_before_);
  at::autocast::set_autocast_enabled(device_type_, autocast_before_);
}

}  // namespace maxbatch::models
