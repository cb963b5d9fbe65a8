#pragma once

/// What swin_step and detector_step have in common: their command line, a cap on the allocator, the loop that measures,
/// and one JSON object on standard output. measured_steps.py is the same for the Python sides.

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/torch.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace measured_steps {

/// Words of the form --name VALUE, and --inference.
class Arguments {
 public:
  /// The options of every such program, and `more`, each with its default.
  explicit Arguments(std::map<std::string, std::string> more) : values_(std::move(more)) {
    values_.insert(
        {{"--batch", "2"}, {"--precision", "fp32"}, {"--steps", "3"}, {"--cap-mib", "0"}, {"--inference", ""}});
  }

  /// False: a word that is none of them, or a value that is missing.
  bool read(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      std::string const name = argv[i];
      if (values_.count(name) == 0) { return false; }
      if (name == "--inference") {
        values_[name] = "yes";
      } else if (++i < argc) {
        values_[name] = argv[i];
      } else {
        return false;
      }
    }
    return true;
  }

  std::string const& operator[](std::string const& name) const { return values_.at(name); }
  std::int64_t number(std::string const& name) const { return std::stoll(values_.at(name)); }
  bool infers() const { return !values_.at("--inference").empty(); }

 private:
  std::map<std::string, std::string> values_;
};

/// As `with torch.autocast("cuda", torch.bfloat16)` in Python.
class Autocast {
 public:
  explicit Autocast(bool on) : on_(on) {
    if (!on_) { return; }
    at::autocast::increment_nesting();
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCUDA, true);
  }
  ~Autocast() {
    if (!on_) { return; }
    if (at::autocast::decrement_nesting() == 0) { at::autocast::clear_cache(); }
    at::autocast::set_autocast_enabled(at::kCUDA, false);
  }
  Autocast(Autocast const&) = delete;
  Autocast& operator=(Autocast const&) = delete;

 private:
  bool on_;
};

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// TF32 off; the context made; at most --cap-mib reserved.
inline void prepare(Arguments const& arguments) {
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  torch::ones({1}, torch::Device(torch::kCUDA, 0));
  auto const cap = arguments.number("--cap-mib");
  if (cap <= 0) { return; }
  auto const [free_bytes, total_bytes] = c10::cuda::CUDACachingAllocator::get()->getMemoryInfo(0);
  static_cast<void>(free_bytes);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(
      (static_cast<double>(cap) * 1048576 + 0.5) / static_cast<double>(total_bytes), 0);
}

/// What is measured of a model: drawing a batch; its loss, which trains it; or what it says.
struct Measured {
  std::function<void()> draw;
  std::function<at::Tensor()> loss;
  std::function<void()> infer;
  torch::optim::Optimizer* optimizer = nullptr;
  double build_seconds = 0;
};

/// Runs --steps steps, each to its end, and prints what they took.
inline void run(Arguments const& arguments, Measured const& measured) {
  auto const is_bf16 = arguments["--precision"] == "bf16";
  auto const step = [&] {
    measured.draw();
    if (arguments.infers()) {
      torch::NoGradGuard const no_gradients;
      Autocast const autocast(is_bf16);
      measured.infer();
      return;
    }
    auto const loss = [&] {
      Autocast const autocast(is_bf16);
      return measured.loss();
    }();
    loss.backward();
    measured.optimizer->step();
    measured.optimizer->zero_grad(/*set_to_none=*/true);
  };

  auto fits = true;
  std::vector<double> seconds;
  std::string reason;
  try {
    for (std::int64_t i = 0; i < arguments.number("--steps"); ++i) {
      auto const start = Clock::now();
      step();
      torch::cuda::synchronize();
      seconds.push_back(seconds_since(start));
    }
  } catch (c10::OutOfMemoryError const& error) {
    fits = false;
    reason = error.what_without_backtrace();
    reason = reason.substr(0, reason.find('.'));
  }
  auto const stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  std::cout << "{\"side\": \"cpp\", \"fits\": " << (fits ? "true" : "false") << ", \"batch\": " << arguments["--batch"]
            << ", \"allocated_peak\": " << stats.allocated_bytes[0].peak
            << ", \"reserved_peak\": " << stats.reserved_bytes[0].peak
            << ", \"build_seconds\": " << measured.build_seconds << ", \"seconds\": [";
  for (std::size_t i = 0; i < seconds.size(); ++i) { std::cout << (i == 0 ? "" : ", ") << seconds[i]; }
  std::cout << "], \"reason\": \"" << reason << "\"}" << std::endl;
}

}  // namespace measured_steps
