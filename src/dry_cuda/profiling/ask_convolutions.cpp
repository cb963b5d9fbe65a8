#include "dry_cuda/profiling/ask_convolutions.hpp"

#include "dry_cuda/profiling/convolution_asker.hpp"
#include "dry_cuda/profiling/loaded_cuda.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace maxbatch::dry {
namespace {

ConvolutionAnswer ask(ConvolutionAsker const& asker, std::string const& question) {
  ConvolutionAnswer answer{question, {}, {}};
  try {
    answer.workspaces = asker.workspaces(ConvolutionQuestion::parse(question));
    if (answer.workspaces.empty()) { answer.reason = "cuDNN has no plan"; }
  } catch (std::exception const& error) { answer.reason = error.what(); }
  return answer;
}

}  // namespace

void ask_convolutions(std::vector<std::string> const& questions, int device, unsigned threads,
                      std::function<void(ConvolutionAnswer answer)> const& each) {
  std::mutex mutex;
  std::size_t next = 0;
  std::exception_ptr failure;
  auto const work = [&] {
    try {
      if (MAXBATCH_LOADED(cudaSetDevice)(device) != cudaSuccess) {
        throw std::runtime_error("the card cannot be used");
      }
      ConvolutionAsker const asker;
      std::unique_lock<std::mutex> lock(mutex);
      while (next < questions.size() && !failure) {
        auto const& question = questions[next++];
        lock.unlock();
        auto answer = ask(asker, question);
        lock.lock();
        if (!failure) { each(std::move(answer)); }
      }
    } catch (...) {
      std::lock_guard<std::mutex> const lock(mutex);
      if (!failure) { failure = std::current_exception(); }
    }
  };
  std::vector<std::thread> others;
  auto const wanted = std::min<std::size_t>(std::max(threads, 1U), questions.size());
  while (others.size() + 1 < wanted) { others.emplace_back(work); }
  work();
  for (auto& thread : others) { thread.join(); }
  if (failure) { std::rethrow_exception(failure); }
}

}  // namespace maxbatch::dry
