#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace maxbatch::dry {

/// What a card says of one convolution.
struct ConvolutionAnswer {
  std::string question;
  std::vector<std::int64_t> workspaces;  ///< in bytes, the first plan's first; empty: there is no answer
  std::string reason;                    ///< why there is none, in cuDNN's words
};

/// Asks cuDNN on this card about each of the questions from so many threads, each with a handle of its own. `each` is called with
/// one answer at a time, in no order, from any of them.
/// Throws: std::runtime_error when cuDNN is not loaded or does not start; what `each` throws, when the other threads have ended.
void ask_convolutions(std::vector<std::string> const& questions, int device, unsigned threads,
                      std::function<void(ConvolutionAnswer answer)> const& each);

}  // namespace maxbatch::dry
