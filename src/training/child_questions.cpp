#include "child_questions.hpp"

namespace maxbatch::detail {

Json order_to_json(ChildOrder const& order) {
  auto const& options = order.options;
  Json json;
  json["do"] = "open";
  json["model"] = order.model;
  json["recipe"] = recipe_to_json(order.recipe);
  json["device"] = order.device;
  json["budget_bytes"] = or_null(order.budget);
  json["headroom_bytes"] = options.headroom.count;
  json["steps"] = options.steps;
  json["order"] = Json::array();
  for (auto const mode : options.order) { json["order"].push_back(mode == StepMode::train ? "train" : "evaluate"); }
  json["restore_values_each_trial"] = options.restore_values_each_trial;
  json["allow_swallowed_out_of_memory"] = options.allow_swallowed_out_of_memory;
  json["minimum"] = options.search.minimum;
  json["maximum"] = or_null(options.search.maximum);
  json["multiple_of"] = options.search.multiple_of;
  json["divisor_of"] = or_null(options.search.divisor_of);
  return json;
}

ChildOrder order_from(Json const& json) {
  ChildOrder order;
  auto& options = order.options;
  order.model = json.at("model").get<std::string>();
  order.recipe = recipe_from(json.at("recipe"));
  order.device = json.at("device").get<std::string>();
  order.budget = optional_bytes_from(json.at("budget_bytes"));
  options.headroom = Bytes{json.at("headroom_bytes").get<std::int64_t>()};
  options.steps = json.at("steps").get<std::int64_t>();
  options.order.clear();
  for (auto const& mode : json.at("order")) {
    options.order.push_back(mode == "train" ? StepMode::train : StepMode::evaluate);
  }
  options.restore_values_each_trial = json.at("restore_values_each_trial").get<bool>();
  options.allow_swallowed_out_of_memory = json.at("allow_swallowed_out_of_memory").get<bool>();
  options.search.minimum = json.at("minimum").get<std::int64_t>();
  options.search.maximum = optional_from<std::int64_t>(json.at("maximum"));
  options.search.multiple_of = json.at("multiple_of").get<std::int64_t>();
  options.search.divisor_of = optional_from<std::int64_t>(json.at("divisor_of"));
  return order;
}

}  // namespace maxbatch::detail
