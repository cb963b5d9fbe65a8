#pragma once

#include "dry_cuda/libraries/convolution_question.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace maxbatch::dry {

/// Asks cuDNN on the current device as LibTorch does (ATen/native/cudnn/Conv_v8.cpp): its heuristics, then its fallback,
/// without the engines that LibTorch passes over.
/// Throws: std::runtime_error when cuDNN is not loaded or does not start.
class ConvolutionAsker {
 public:
  /// As many plans as a table holds.
  static constexpr std::size_t kMostPlans = 3;

  ConvolutionAsker();
  ~ConvolutionAsker();
  ConvolutionAsker(ConvolutionAsker const&) = delete;
  ConvolutionAsker& operator=(ConvolutionAsker const&) = delete;

  /// The workspaces in bytes of the first plans that can be made, in the heuristics' order; none: cuDNN has no plan.
  /// Throws: std::runtime_error with cuDNN's word for what it does not accept.
  std::vector<std::int64_t> workspaces(ConvolutionQuestion const& question) const;

  /// As cudnnGetVersion says it, for a table's header.
  std::string cudnn_version() const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace maxbatch::dry
