#include <maxbatch/training/recipe.hpp>

#include <array>
#include <utility>

namespace maxbatch {
namespace {

constexpr std::array<std::pair<OptimizerKind, std::string_view>, 6> kOptimizers = {
    {{OptimizerKind::adamw, "adamw"},
     {OptimizerKind::adamw_foreach, "adamw-foreach"},
     {OptimizerKind::adamw_fused, "adamw-fused"},
     {OptimizerKind::sgd, "sgd"},
     {OptimizerKind::sgd_foreach, "sgd-foreach"},
     {OptimizerKind::sgd_fused, "sgd-fused"}}};
constexpr std::array<std::pair<Precision, std::string_view>, 4> kPrecisions = {
    {{Precision::fp32, "fp32"}, {Precision::tf32, "tf32"}, {Precision::bf16, "bf16"}, {Precision::fp16, "fp16"}}};

template <typename Named>
std::string_view name_of(Named const& names, typename Named::value_type::first_type value) {
  for (auto const& [known, name] : names) {
    if (known == value) { return name; }
  }
  return "";
}

template <typename Named>
std::optional<typename Named::value_type::first_type> value_of(Named const& names, std::string_view name) {
  for (auto const& [value, known] : names) {
    if (known == name) { return value; }
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(OptimizerKind kind) { return name_of(kOptimizers, kind); }
std::string_view to_string(Precision precision) { return name_of(kPrecisions, precision); }
std::optional<OptimizerKind> parse_optimizer(std::string_view name) { return value_of(kOptimizers, name); }
std::optional<Precision> parse_precision(std::string_view name) { return value_of(kPrecisions, name); }

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (auto const& [kind, name] : kOptimizers) { names.emplace_back(name); }
  return names;
}

}  // namespace maxbatch
