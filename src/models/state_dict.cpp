#include "pickled_tensors.hpp"
#include <maxbatch/models/state_dict.hpp>
#include <maxbatch/search/errors.hpp>

#include <torch/csrc/jit/serialization/import_read.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <utility>

#include <caffe2/serialize/inline_container.h>

namespace maxbatch::models {
namespace {

constexpr std::size_t kNamesShown = 5;

using Entries = std::map<std::string, at::Tensor>;

Entries entries_of(torch::nn::Module const& module) {
  Entries entries;
  for (auto const& item : module.named_parameters()) { entries.emplace(item.key(), item.value()); }
  for (auto const& item : module.named_buffers()) { entries.emplace(item.key(), item.value()); }
  return entries;
}

std::string list_of(std::vector<std::string> const& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) { text += (i == 0 ? "" : ", ") + names[i]; }
  if (names.size() > kNamesShown) { text += " and " + std::to_string(names.size() - kNamesShown) + " more"; }
  return text;
}

std::string shape_of(at::Tensor const& tensor) {
  std::string text = "[";
  for (auto const size : tensor.sizes()) { text += (text.size() == 1 ? "" : ", ") + std::to_string(size); }
  return text + "]";
}

bool is_derived(std::string const& name, std::vector<std::string> const& derived) {
  auto const last_part = name.substr(name.rfind('.') + 1);  // npos + 1 is 0: the whole name
  return std::any_of(derived.begin(), derived.end(),
                     [&](std::string const& one) { return one == last_part || one == name; });
}

}  // namespace

void load_state_dict(torch::nn::Module& module, std::string const& file, std::vector<std::string> const& derived) {
  auto const found = read_pickled_tensors(file);
  auto const wanted = entries_of(module);

  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> different;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // to, from
  for (auto const& [name, to] : wanted) {
    if (is_derived(name, derived)) { continue; }
    auto const from = found.find(name);
    if (from == found.end()) {
      missing.push_back(name);
    } else if (from->second.sizes() != to.sizes()) {
      different.push_back(name + " is " + shape_of(from->second) + " there and " + shape_of(to) + " here");
    } else if (from->second.is_floating_point() != to.is_floating_point()) {
      different.push_back(name + " is " + c10::toString(from->second.scalar_type()) + " there and " +
                          c10::toString(to.scalar_type()) + " here");
    } else {
      copies.emplace_back(to, from->second);
    }
  }
  for (auto const& [name, tensor] : found) {
    if (!is_derived(name, derived) && wanted.count(name) == 0) { unexpected.push_back(name); }
  }

  std::string complaint;
  auto const complain = [&](char const* what, std::vector<std::string> const& names) {
    if (!names.empty()) { complaint += (complaint.empty() ? "" : "; ") + std::string(what) + ": " + list_of(names); }
  };
  complain("missing", missing);
  complain("unexpected", unexpected);
  complain("other shapes or types", different);
  if (!complaint.empty()) {
    throw InvalidArgument("the state dict in '" + file + "' is not one of this model (" + std::to_string(found.size()) +
                          " entries there). " + complaint + ". Nothing was loaded.");
  }

  at::NoGradGuard const no_gradients;
  for (auto& [to, from] : copies) { to.copy_(from); }
}

}  // namespace maxbatch::models
