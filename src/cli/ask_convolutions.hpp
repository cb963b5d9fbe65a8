#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace maxbatch::cli {

/// What a card says of one convolution.
struct ConvolutionAnswer {
  std::string question;
  std::vector<std::int64_t> workspaces;  ///< in bytes, the first plan's first; empty: there is no answer
  std::string reason;                    ///< why there is none, in cuDNN's words
};

/// Asks cuDNN on this card about each of the questions, of this process or, where there are many, of so many others: threads of one
/// wait for each other inside cuDNN. `each` is called with one answer at a time, in no order, from any thread.
/// Throws: std::runtime_error when cuDNN does not start or one of the processes ends; what `each` throws.
void ask_convolutions(std::vector<std::string> const& questions, int device, std::size_t jobs,
                      std::function<void(ConvolutionAnswer answer)> const& each);

/// In such a process, which was started as `maxbatch profile-gpu --device N --answers`: answers until nobody asks.
/// False where nobody is there to ask.  Throws: std::runtime_error when cuDNN does not start.
bool answer_questions(int device);

}  // namespace maxbatch::cli
