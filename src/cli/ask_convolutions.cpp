#include "ask_convolutions.hpp"

#include "dry_cuda/profiling/convolution_asker.hpp"
#include "dry_cuda/profiling/loaded_cuda.hpp"
#include "process/child_process.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace maxbatch::cli {
namespace {

constexpr char kReason = '!';               // begins an answer that is none
constexpr std::size_t kWorthAProcess = 64;  // questions: a process starts for a second or two

dry::ConvolutionAsker asker_on(int device) {
  if (MAXBATCH_LOADED(cudaSetDevice)(device) != cudaSuccess) { throw std::runtime_error("the card cannot be used"); }
  return {};
}

ConvolutionAnswer ask(dry::ConvolutionAsker const& asker, std::string const& question) {
  ConvolutionAnswer answer{question, {}, {}};
  try {
    answer.workspaces = asker.workspaces(dry::ConvolutionQuestion::parse(question));
    if (answer.workspaces.empty()) { answer.reason = "cuDNN has no plan"; }
  } catch (std::exception const& error) { answer.reason = error.what(); }
  return answer;
}

std::string line_of(ConvolutionAnswer const& answer) {
  if (answer.workspaces.empty()) {
    auto reason = answer.reason;
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    return kReason + reason;
  }
  std::string line;
  for (auto const bytes : answer.workspaces) { line += std::to_string(bytes) + ' '; }
  return line;
}

ConvolutionAnswer answer_in(std::string question, std::string const& line) {
  ConvolutionAnswer answer{std::move(question), {}, {}};
  if (!line.empty() && line.front() == kReason) {
    answer.reason = line.substr(1);
    return answer;
  }
  std::istringstream words(line);
  for (std::int64_t bytes = 0; words >> bytes;) { answer.workspaces.push_back(bytes); }
  return answer;
}

/// A process that answers, for the thread that made it.
class Other {
 public:
  explicit Other(int device)
      : process_({std::filesystem::read_symlink("/proc/self/exe").string(), "profile-gpu", "--device",
                  std::to_string(device), "--answers"},
                 {}, process::ChildProcess::Talk::questions) {}

  ConvolutionAnswer ask(std::string const& question) {
    std::string line;
    if (!process_.send(question) || process_.receive(line) != process::ChildProcess::Received::line) {
      auto const end = process_.finish(std::chrono::seconds(1));
      throw std::runtime_error("a process that asks cuDNN " + end.describe() + ": " + process_.last_words());
    }
    return answer_in(question, line);
  }

 private:
  process::ChildProcess process_;
};

/// Takes the questions one by one for several threads, and gives on their answers.
class Interview {
 public:
  Interview(std::vector<std::string> const& questions, std::function<void(ConvolutionAnswer answer)> const& each)
      : questions_(questions), each_(each) {}

  void take_part(int device) {
    try {
      Other other(device);
      std::unique_lock<std::mutex> lock(mutex_);
      while (next_ < questions_.size() && !failure_) {
        auto const& question = questions_[next_++];
        lock.unlock();
        auto answer = other.ask(question);
        lock.lock();
        if (!failure_) { each_(std::move(answer)); }
      }
    } catch (...) {
      std::lock_guard<std::mutex> const lock(mutex_);
      if (!failure_) { failure_ = std::current_exception(); }
    }
  }

  void check() const {
    if (failure_) { std::rethrow_exception(failure_); }
  }

 private:
  std::vector<std::string> const& questions_;
  std::function<void(ConvolutionAnswer answer)> const& each_;
  std::mutex mutex_;
  std::size_t next_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

void ask_convolutions(std::vector<std::string> const& questions, int device, std::size_t jobs,
                      std::function<void(ConvolutionAnswer answer)> const& each) {
  auto const others = std::min(jobs, questions.size() / kWorthAProcess);
  if (others <= 1) {
    auto const asker = asker_on(device);
    for (auto const& question : questions) { each(ask(asker, question)); }
    return;
  }
  Interview interview(questions, each);
  std::vector<std::thread> threads;
  while (threads.size() < others) {
    threads.emplace_back([&] { interview.take_part(device); });
  }
  for (auto& thread : threads) { thread.join(); }
  interview.check();
}

bool answer_questions(int device) {
  auto const channel = process::take_channel(process::ChildProcess::Talk::questions);
  if (channel < 0) { return false; }
  auto const asker = asker_on(device);
  std::string unread;
  std::string question;
  while (process::read_line(channel, unread, question) && process::write_line(channel, line_of(ask(asker, question)))) {
  }
  return true;
}

}  // namespace maxbatch::cli
