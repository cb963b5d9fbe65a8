#include "float32_switches.hpp"

#include <c10/util/Exception.h>

#include <utility>

namespace maxbatch::detail {
namespace {

using at::Context;
using at::Float32Backend;
using at::Float32Op;
using at::Float32Precision;

/// LibTorch calls the older half of the precision switches deprecated. We have to use both halves, and print nothing.
class SilentWarnings : public c10::WarningHandler {
 public:
  void process(c10::Warning const& /*warning*/) override {}
};

c10::WarningHandler* silent() {
  static SilentWarnings handler;
  return &handler;
}

/// Reads a switch and leaves it at NONE.
Float32Precision take(Context& context, Float32Backend backend, Float32Op op) {
  auto const precision = context.float32Precision(backend, op);
  context.setFloat32Precision(backend, op, Float32Precision::NONE);
  return precision;
}

}  // namespace

Float32Switches Float32Switches::read(Context& context) {
  Float32Switches read;
  read.at(Float32Backend::GENERIC, Float32Op::ALL) = take(context, Float32Backend::GENERIC, Float32Op::ALL);
  for (auto const backend : {Float32Backend::CUDA, Float32Backend::MKLDNN}) {
    read.at(backend, Float32Op::ALL) = take(context, backend, Float32Op::ALL);
    for (auto const op : {Float32Op::CONV, Float32Op::RNN, Float32Op::MATMUL}) {
      read.at(backend, op) = take(context, backend, op);
      context.setFloat32Precision(backend, op, Float32Precision::IEEE);
    }
  }
  // Every operator is at IEEE now, with which "highest" and "no TF32" of the older ones agree.
  c10::WarningUtils::WarningHandlerGuard const silence(silent());
  read.matmul_ = context.float32MatmulPrecision();
  try {
    read.cudnn_ = context.allowTF32CuDNN();
  } catch (c10::Error const&) {
    read.cudnn_ = true;  // it throws because it disagrees
  }
  read.write_newer(context);
  return read;
}

/// The older setters change the newer switches too, so those come last.
void Float32Switches::write(Context& context) const {
  c10::WarningUtils::WarningHandlerGuard const silence(silent());
  static constexpr std::array<char const*, 3> kNames = {"highest", "high", "medium"};
  context.setFloat32MatmulPrecision(kNames.at(static_cast<std::size_t>(matmul_)));
  context.setAllowTF32CuDNN(cudnn_);
  write_newer(context);
}

void Float32Switches::write_newer(Context& context) const {
  for (std::size_t backend = 0; backend < kBackends; ++backend) {
    for (std::size_t op = 0; op < kOps; ++op) {
      auto const key = std::pair(static_cast<Float32Backend>(backend), static_cast<Float32Op>(op));
      if (key.first == Float32Backend::GENERIC && key.second != Float32Op::ALL) { continue; }
      context.setFloat32Precision(key.first, key.second, newer_.at(backend).at(op));
    }
  }
}

}  // namespace maxbatch::detail
