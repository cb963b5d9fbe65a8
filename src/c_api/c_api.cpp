#include "../training/json_values.hpp"
#include <maxbatch/c_api.h>
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/device/cuda_device.hpp>
#include <maxbatch/report/result_json.hpp>
#include <maxbatch/report/version.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

struct maxbatch_failure {
  int kind = 0;
  std::string text;
};

namespace maxbatch {
namespace {

using detail::Json;

/// What a callback raised that is not about memory by its type. The caller keeps the exception itself.
class CallbackFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void raise(maxbatch_failure const& failure) {
  if (failure.kind == MAXBATCH_OUT_OF_MEMORY) {
    throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, failure.text);
  }
  throw CallbackFailed(failure.text.empty() ? "a callback failed and did not say why" : failure.text);
}

/// A callback that may be missing.
template <typename Callback, typename... Arguments>
void call(Callback callback, void* user, Arguments... arguments) {
  if (callback == nullptr) { return; }
  maxbatch_failure failure;
  if (callback(user, arguments..., &failure) != 0) { raise(failure); }
}

/// State that the caller keeps.
class CallersState : public StateGuard {
 public:
  explicit CallersState(maxbatch_callbacks const& callbacks) : callbacks_(callbacks) {
    call(callbacks_.save, callbacks_.user);
  }
  void restore_structure() override { call(callbacks_.restore_structure, callbacks_.user); }
  void restore_values() override { call(callbacks_.restore_values, callbacks_.user); }
  std::vector<NamedTensor> resident_tensors() const override { return {}; }

 private:
  maxbatch_callbacks const& callbacks_;
};

}  // namespace
}  // namespace maxbatch

/// Found by the type of its argument, as `preserve` looks for it.
static std::unique_ptr<maxbatch::StateGuard> make_state_guard(maxbatch_callbacks const& callbacks) {
  return std::make_unique<maxbatch::CallersState>(callbacks);
}

namespace maxbatch {
namespace {

class CallersObserver : public SearchObserver {
 public:
  explicit CallersObserver(maxbatch_callbacks const& callbacks) : callbacks_(callbacks) {}

  void trial_finished(TrialRecord const& record) override {
    if (callbacks_.trial_finished == nullptr) { return; }
    Json trial;
    trial["batch_size"] = record.batch_size;
    trial["purpose"] = to_string(record.purpose);
    trial["seconds"] = record.seconds;
    detail::add_outcome(trial, record.outcome);
    callbacks_.trial_finished(callbacks_.user, detail::dump(trial, -1).c_str());
  }
  bool stop_requested() override {
    return callbacks_.must_stop != nullptr && callbacks_.must_stop(callbacks_.user) != 0;
  }

 private:
  maxbatch_callbacks const& callbacks_;
};

template <typename Value>
std::optional<Value> value_of(Json const& question, char const* key) {
  if (!question.contains(key) || question.at(key).is_null()) { return std::nullopt; }
  return question.at(key).get<Value>();
}

FinderOptions options_of(Json const& question) {
  FinderOptions options;
  options.headroom = Bytes{value_of<std::int64_t>(question, "headroom_bytes").value_or(0)};
  options.steps = value_of<std::int64_t>(question, "steps").value_or(options.steps);
  auto& search = options.search;
  search.minimum = value_of<std::int64_t>(question, "minimum").value_or(1);
  search.maximum = value_of<std::int64_t>(question, "maximum");
  search.multiple_of = value_of<std::int64_t>(question, "multiple_of").value_or(1);
  search.divisor_of = value_of<std::int64_t>(question, "divisor_of");
  search.enough = value_of<std::int64_t>(question, "enough");
  search.probe_above = value_of<std::int64_t>(question, "probe_above");
  search.max_trials = value_of<std::int64_t>(question, "max_trials");
  if (auto const seconds = value_of<double>(question, "max_seconds")) {
    search.max_duration = std::chrono::duration<double>(*seconds);
  }
  return options;
}

std::shared_ptr<MemoryDevice> device_of(Json const& question) {
  auto const name = value_of<std::string>(question, "device").value_or("cpu");
  std::optional<Bytes> budget;
  if (auto const bytes = value_of<std::int64_t>(question, "budget_bytes")) { budget = Bytes{*bytes}; }
  std::optional<c10::Device> device;
  try {
    device.emplace(name);
  } catch (c10::Error const&) { throw InvalidArgument("device is '" + name + "'; it may be cpu, cuda or cuda:N"); }
  if (device->is_cuda()) { return cuda_device(device->has_index() ? device->index() : c10::DeviceIndex{0}, budget); }
  if (!device->is_cpu()) { throw InvalidArgument("device is '" + name + "'; it may be cpu, cuda or cuda:N"); }
  auto cpu = budgeted_cpu_device(budget);
  // The machine's memory also holds the program, its libraries and their scratch, none of which the budget counts.
  if (!budget) { cpu->set_budget(Bytes{cpu->describe().total.count / 2}); }
  return cpu;
}

std::string find(Json const& question, maxbatch_callbacks const& callbacks) {
  if (callbacks.step == nullptr) { throw InvalidArgument("no step was given"); }
  MaxBatchFinder finder(device_of(question), options_of(question));
  if (callbacks.save != nullptr || callbacks.restore_structure != nullptr || callbacks.restore_values != nullptr) {
    finder.preserve(callbacks);
  } else {
    finder.preserve_nothing();
  }
  finder.observe(std::make_shared<CallersObserver>(callbacks));
  auto const result = finder.find(
      [&callbacks](Trial& trial) { call(callbacks.step, callbacks.user, trial.batch_size(), trial.step_index()); });
  ReportSubject subject;
  subject.model = value_of<std::string>(question, "name").value_or("step");
  auto json = Json::parse(to_json(result, subject));
  json["recipe"] = nullptr;  // the step's own matter
  return detail::dump(json, -1);
}

int tell(int status, std::string const& text, char** answer) {
  *answer = static_cast<char*>(std::malloc(text.size() + 1));
  if (*answer != nullptr) { std::memcpy(*answer, text.c_str(), text.size() + 1); }
  return status;
}

std::string first_line_of(std::exception const& error) {
  std::string const text = error.what();  // LibTorch appends a backtrace of many
  return text.substr(0, text.find('\n'));
}

}  // namespace
}  // namespace maxbatch

void maxbatch_fail(maxbatch_failure* failure, int kind, char const* text) {
  failure->kind = kind;
  failure->text = text == nullptr ? "" : text;
}

int maxbatch_find(char const* question, maxbatch_callbacks const* callbacks, char** answer) {
  using namespace maxbatch;  // NOLINT(google-build-using-namespace): the entry point lives outside
  try {
    return tell(MAXBATCH_ANSWERED, find(Json::parse(question), *callbacks), answer);
  } catch (InvalidArgument const& error) {
    return tell(MAXBATCH_INVALID_ARGUMENT, error.what(), answer);
  } catch (DeviceUnavailable const& error) {
    return tell(MAXBATCH_INVALID_ARGUMENT, error.what(), answer);
  } catch (Json::exception const& error) {
    return tell(MAXBATCH_INVALID_ARGUMENT, std::string("the question is not as c_api.h says: ") + error.what(), answer);
  } catch (std::exception const& error) {
    return tell(MAXBATCH_STEP_FAILED, first_line_of(error), answer);
  } catch (...) { return tell(MAXBATCH_STEP_FAILED, "an exception that is no std::exception", answer); }
}

void maxbatch_free(char* answer) { std::free(answer); }

char const* maxbatch_version(void) { return maxbatch::version().data(); }
char const* maxbatch_libtorch_version(void) { return maxbatch::libtorch_version().data(); }
