#include "tf32_guard.hpp"

#include <ATen/Context.h>

#include <condition_variable>
#include <mutex>

namespace maxbatch::models {
namespace {

/// Of all guards of this process, which want the same as long as there are any.
class Tf32Flags {
 public:
  static Tf32Flags& of_process() {
    static Tf32Flags instance;
    return instance;
  }

  void enter(bool wanted) {
    std::unique_lock<std::mutex> lock(mutex_);
    nobody_wants_otherwise_.wait(lock, [&] { return guards_ == 0 || wanted_ == wanted; });
    if (guards_ == 0) {
      auto& context = at::globalContext();
      matmul_before_ = context.allowTF32CuBLAS();
      cudnn_before_ = context.allowTF32CuDNN();
      set(wanted, wanted);
      wanted_ = wanted;
    }
    ++guards_;  // last: where LibTorch throws, because its switches contradict each other, nobody has entered
  }

  void leave() {
    std::lock_guard<std::mutex> const lock(mutex_);
    if (--guards_ > 0) { return; }
    set(matmul_before_, cudnn_before_);
    nobody_wants_otherwise_.notify_all();
  }

 private:
  static void set(bool matmul, bool cudnn) {
    at::globalContext().setAllowTF32CuBLAS(matmul);
    at::globalContext().setAllowTF32CuDNN(cudnn);
  }

  std::mutex mutex_;
  std::condition_variable nobody_wants_otherwise_;
  int guards_ = 0;
  bool wanted_ = false;
  bool matmul_before_ = false;
  bool cudnn_before_ = false;
};

}  // namespace

Tf32Guard::Tf32Guard(Precision precision, c10::Device device) : acts_(device.is_cuda()) {
  if (acts_) { Tf32Flags::of_process().enter(precision == Precision::tf32); }
}

Tf32Guard::~Tf32Guard() {
  if (acts_) { Tf32Flags::of_process().leave(); }
}

}  // namespace maxbatch::models
