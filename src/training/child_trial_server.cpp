#include "../process/child_process.hpp"
#include "child_questions.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/device/cuda_device.hpp>
#include <maxbatch/impl/nearest_name.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/child_process_runner.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

namespace maxbatch {
namespace {

using detail::Json;

/// The runner has gone, or wants no more of this search: the search unwinds.
struct TalkIsOver {};

using ModelMaker = std::function<std::optional<ModelFactory>(std::string const& name)>;

class TrialServer {
 public:
  TrialServer(int channel, std::vector<ModelFactory> const& models, ModelMaker const& other_model)
      : channel_(channel), models_(models), other_model_(other_model) {}

  /// One search after another, until nobody asks any more.
  void serve() {
    Json question;
    while (ask(question)) {
      try {
        answer_search(detail::order_from(question));
      } catch (TalkIsOver const&) { return; } catch (InvalidArgument const& error) {
        say_failure("invalid argument", error.what());
      } catch (StepNeverRan const& error) {
        say_failure("step never ran", error.what());
      } catch (std::exception const& error) { say_failure("failed", error.what()); } catch (...) {
        say_failure("failed", "an exception that is no std::exception");
      }
    }
  }

 private:
  void answer_search(detail::ChildOrder const& order) {
    auto const model = model_named(order.model);
    auto const device = device_named(order.device);
    if (order.budget) { device->set_budget(order.budget); }
    MaxBatchFinder finder(device, order.options);
    finder.drive_with(
        [&](Probe const& probe, SearchOptions const& options, PeakPredictor* /*predictor*/, SearchObserver* observer) {
          Json opened;
          opened["opened"] = detail::device_to_json(device->describe());
          say(opened);
          run_what_is_asked(probe, options, *observer);
          return SearchResult{};
        });
    auto const result = finder.find(model, order.recipe);
    Json closed;
    closed["closed"] = detail::device_to_json(result.device);
    closed["warnings"] = result.warnings;
    closed["reason"] = result.search.reason;
    closed["steps"] = result.steps;
    say(closed);
  }

  void run_what_is_asked(Probe const& probe, SearchOptions const& options, SearchObserver& observer) {
    Json question;
    while (ask(question)) {
      auto const what = question.at("do").get<std::string>();
      if (what == "close") { return; }
      Json answer;
      if (what == "flush") {
        options.before_retry();
        answer["flushed"] = true;
      } else {
        detail::add_outcome(answer["outcome"], probe(question.at("size").get<std::int64_t>()));
        answer["must_stop"] = observer.stop_requested();
      }
      say(answer);
    }
    throw TalkIsOver{};
  }

  ModelFactory model_named(std::string const& name) const {
    std::vector<std::string> names;
    for (auto const& model : models_) {
      if (model.name == name) { return model; }
      names.push_back(model.name);
    }
    if (other_model_) {
      if (auto const other = other_model_(name)) { return *other; }
    }
    auto const nearest = detail::nearest_name(name, names);
    throw InvalidArgument("the child process knows no model '" + name + "'" +
                          (nearest ? "; did you mean '" + *nearest + "'?" : ""));
  }

  static std::shared_ptr<MemoryDevice> device_named(std::string const& name) {
    c10::Device const device(name);
    if (device.is_cpu()) { return budgeted_cpu_device(std::nullopt); }
    return cuda_device(device.has_index() ? device.index() : 0);
  }

  /// False when nobody asks any more.
  bool ask(Json& question) {
    std::string line;
    if (!process::read_line(channel_, unread_, line)) { return false; }
    question = Json::parse(line);
    return true;
  }
  void say(Json const& answer) {
    if (!process::write_line(channel_, detail::dump(answer, -1))) { throw TalkIsOver{}; }
  }
  void say_failure(char const* kind, char const* text) {
    Json answer;
    answer["error"] = kind;
    answer["text"] = text;
    say(answer);
  }

  int channel_;
  std::string unread_;
  std::vector<ModelFactory> const& models_;
  ModelMaker const& other_model_;
};

}  // namespace

void answer_if_child(std::vector<ModelFactory> const& models, ModelMaker const& other_model) {
  auto const channel = process::take_channel(process::ChildProcess::Talk::trials);
  if (channel < 0) { return; }
  try {
    TrialServer(channel, models, other_model).serve();
  } catch (TalkIsOver const&) {}
  std::_Exit(EXIT_SUCCESS);  // no destructor of the program may wait for a device that is gone
}

}  // namespace maxbatch
