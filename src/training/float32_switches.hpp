#pragma once

#include <ATen/Context.h>

#include <array>
#include <cstddef>

namespace maxbatch::detail {

/// TF32 and its kin. LibTorch has two sets of switches for it, an older one (`allow_tf32`, "matmul precision") and a
/// newer one by backend and operator, and a program may have left them contradicting each other.
///
/// Note [Reading precision switches]
/// No getter gives a switch as it was set: the newer ones fall back from the operator to the backend to all backends
/// where a switch is NONE, and the older ones throw where the two sets disagree. So the newer ones are read from the most
/// general to the most special, each while those that it would fall back to are NONE, and the older ones while the newer
/// ones are IEEE. Everything is put back at once; meanwhile precision is never lower than it was.
///
/// Threads: the switches are the process's, and reading writes. A step that another thread runs meanwhile is run without TF32, and
/// plans other convolutions: ProcessSwitches sees to it that no search does that to another.
class Float32Switches {
 public:
  static Float32Switches read(at::Context& context);
  void write(at::Context& context) const;

  friend bool operator==(Float32Switches const& a, Float32Switches const& b) {
    return a.newer_ == b.newer_ && a.matmul_ == b.matmul_ && a.cudnn_ == b.cudnn_;
  }

 private:
  static constexpr std::size_t kBackends = 3;
  static constexpr std::size_t kOps = 4;

  at::Float32Precision& at(at::Float32Backend backend, at::Float32Op op) {
    return newer_.at(static_cast<std::size_t>(backend)).at(static_cast<std::size_t>(op));
  }
  void write_newer(at::Context& context) const;

  std::array<std::array<at::Float32Precision, kOps>, kBackends> newer_ = {};
  at::Float32MatmulPrecision matmul_ = at::Float32MatmulPrecision::HIGHEST;
  bool cudnn_ = true;
};

}  // namespace maxbatch::detail
