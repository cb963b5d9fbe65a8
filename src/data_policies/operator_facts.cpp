#include "operator_facts.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace maxbatch::dry {
namespace {

Asks asks_of(std::string_view name, c10::FunctionSchema const& schema) {
  static std::map<std::string_view, Asks> const all = {
      {"aten::nonzero", Asks::nonzero},          {"aten::_unique", Asks::unique},
      {"aten::_unique2", Asks::unique},          {"aten::unique_consecutive", Asks::unique},
      {"aten::unique_dim", Asks::unique_dim},    {"aten::unique_dim_consecutive", Asks::unique_dim},
      {"aten::_local_scalar_dense", Asks::item}, {"aten::copy_", Asks::copy},
      {"aten::multinomial", Asks::multinomial},  {"aten::bincount", Asks::bincount},
      {"aten::_coalesce", Asks::coalesce},       {"torchvision::nms", Asks::nms},
  };
  if (name == "aten::repeat_interleave" && schema.overload_name() == "Tensor") { return Asks::repeat_interleave; }
  auto const found = all.find(name);
  return found == all.end() ? Asks::nothing : found->second;
}

bool begins_with(std::string_view text, std::string_view beginning) {
  return text.substr(0, beginning.size()) == beginning;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Batch normalization writes its running statistics, of which its schema says nothing.
bool writes_unsaid(std::string_view name) { return contains(name, "batch_norm") || contains(name, "instance_norm"); }

bool is_computable(std::string_view name, c10::FunctionSchema const& schema, c10::OperatorHandle const& handle) {
  if (!begins_with(name, "aten::") || writes_unsaid(name)) { return false; }
  // Contents that nobody wrote, memory that moves, and what nothing is told about.
  for (auto const* const part :
       {"empty", "resize", "set_", "record_stream", "storage", "rand", "dropout", "bernoulli", "multinomial", "_assert",
        "sparse", "quantize", "pin_memory", "cudnn", "scaled_dot", "attention", "lstm", "gru", "rnn"}) {
    if (contains(name, part)) { return false; }
  }
  if (handle.hasTag(at::Tag::nondeterministic_seeded) || schema.is_vararg()) { return false; }
  auto const is_result = [](c10::Argument const& result) {
    return result.type()->isSubtypeOf(*c10::TensorType::get()) ||
           result.type()->isSubtypeOf(*c10::ListType::ofTensors());
  };
  return std::all_of(schema.returns().begin(), schema.returns().end(), is_result) &&
         std::none_of(schema.arguments().begin(), schema.arguments().end(), [](c10::Argument const& argument) {
           return argument.type()->str().find("Generator") != std::string::npos;
         });
}

std::unique_ptr<OperatorFacts> find_facts(c10::OperatorName const& name) {
  auto facts = std::make_unique<OperatorFacts>();
  facts->name = name.name;
  facts->handle = c10::Dispatcher::singleton().findSchema(name);
  if (!facts->handle) { return facts; }
  auto const& schema = facts->handle->schema();
  facts->asks = asks_of(facts->name, schema);
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    auto const* const alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) { facts->written.push_back(i); }
  }
  auto const& results = schema.returns();
  facts->only_views = facts->written.empty() && !results.empty() &&
                      std::all_of(results.begin(), results.end(),
                                  [](c10::Argument const& result) { return result.alias_info() != nullptr; });
  facts->overwrites_self = facts->name == "aten::fill_" || facts->name == "aten::zero_" || facts->name == "aten::copy_";
  facts->writes_unsaid = writes_unsaid(facts->name);
  facts->keeps_self = facts->name == "aten::_amp_foreach_non_finite_check_and_unscale_";
  // What is made of other operators is computed where those are: some of them may ask.
  auto const is_composite = facts->handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  facts->computable = !is_composite && facts->asks != Asks::item && facts->asks != Asks::nms && !facts->only_views &&
                      is_computable(facts->name, schema, *facts->handle);
  facts->is_all = facts->name == "aten::all";
  return facts;
}

}  // namespace

OperatorFacts const* facts_of(at::RecordFunction const& call) {
  // By the address of the name inside the operator's schema, which stays where it is.
  thread_local std::unordered_map<void const*, OperatorFacts const*> mine;
  auto const* const key = static_cast<void const*>(call.name());
  auto const found = mine.find(key);
  if (found != mine.end()) { return found->second; }
  auto const name = call.operator_name();
  if (!name) { return nullptr; }  // a range that somebody named; its text may be gone the next moment
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<std::string, std::unique_ptr<OperatorFacts>>;
  std::lock_guard<std::mutex> const lock(*mutex);
  auto& facts = (*all)[c10::toString(*name)];
  if (facts == nullptr) { facts = find_facts(*name); }
  mine.emplace(key, facts.get());
  return facts.get();
}

char const* name_of(Asks asks) {
  switch (asks) {
    case Asks::nothing: return "";
    case Asks::nonzero: return "nonzero";
    case Asks::unique:
    case Asks::unique_dim: return "unique";
    case Asks::nms: return "nms";
    case Asks::item: return "item";
    case Asks::copy: return "copy";
    case Asks::repeat_interleave: return "repeat_interleave";
    case Asks::multinomial: return "multinomial";
    case Asks::bincount: return "bincount";
    case Asks::coalesce: return "coalesce";
  }
  return "";
}

}  // namespace maxbatch::dry
