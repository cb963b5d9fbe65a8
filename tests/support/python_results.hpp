#pragma once

#include "support/remove_folder.hpp"

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

namespace maxbatch::test {

using NamedTensors = std::map<std::string, at::Tensor>;

/// What a Python script computed for these tests: `python script --can-run` tells whether it can, `--cases FOLDER` leaves
/// CASE.weights.pt (a state dict) and CASE.pt (a dict of results) for every case.
class PythonResults {
 public:
  /// An empty `python` means that there is none.
  PythonResults(std::string const& python, std::string const& script, std::string const& library) {
    if (python.empty()) {
      why_not_ = "LibTorch came without a Python beside it";
      return;
    }
    auto const command = python + " " + script;
    if (std::system((command + " --can-run >/dev/null 2>&1").c_str()) != 0) {
      why_not_ = library + " cannot be imported by " + python + "; where it is installed, name it in PYTHONPATH";
      return;
    }
    folder_ = testing::TempDir() + std::filesystem::path(script).stem().string() + "_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
    if (std::system((command + " --cases " + folder_).c_str()) != 0) { failure_ = command + " failed"; }
  }
  ~PythonResults() {
    if (!folder_.empty()) { remove_folder(folder_); }
  }
  PythonResults(PythonResults const&) = delete;
  PythonResults& operator=(PythonResults const&) = delete;

  /// Empty where there are results: the reason to skip; and what went wrong.
  std::string const& why_not() const { return why_not_; }
  std::string const& failure() const { return failure_; }

  std::string weights_of(std::string const& name) const { return folder_ + "/" + name + ".weights.pt"; }
  c10::impl::GenericDict results_of(std::string const& name) const {
    std::ifstream file(folder_ + "/" + name + ".pt", std::ios::binary);
    std::vector<char> const bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return torch::pickle_load(bytes).toGenericDict();
  }

 private:
  std::string folder_;
  std::string why_not_;
  std::string failure_;
};

inline at::Tensor tensor_at(c10::impl::GenericDict const& dict, std::string const& key) {
  return dict.at(key).toTensor();
}

inline std::vector<at::Tensor> tensors_at(c10::impl::GenericDict const& dict, std::string const& key) {
  std::vector<at::Tensor> found;
  auto const value = dict.at(key);
  if (value.isTensorList()) { return value.toTensorVector(); }
  for (auto const& item : value.toListRef()) { found.push_back(item.toTensor()); }
  return found;
}

inline NamedTensors named_tensors_at(c10::impl::GenericDict const& dict, std::string const& key) {
  NamedTensors found;
  for (auto const& item : dict.at(key).toGenericDict()) {
    found.emplace(item.key().toStringRef(), item.value().toTensor());
  }
  return found;
}

/// Size of the difference, in sizes of the truth; of the difference itself where the truth is zero.
inline double error_of(at::Tensor const& ours, at::Tensor const& truth) {
  auto const size = truth.to(at::kDouble).norm().item<double>();
  auto const difference = (ours.to(at::kDouble) - truth.to(at::kDouble)).norm().item<double>();
  return size == 0 ? difference : difference / size;
}

}  // namespace maxbatch::test
