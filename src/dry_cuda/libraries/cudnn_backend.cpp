// cuDNN's graph interface. Descriptors go to the real library, which plans without a device when it is told the card's
// properties: the true plan gives the true workspace. A plan is never executed.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/libraries/calls.hpp"
#include "dry_cuda/libraries/convolution_table.hpp"
#include "dry_cuda/libraries/convolution_uncertainty.hpp"
#include "dry_cuda/libraries/cudnn_device_description.hpp"
#include "dry_cuda/libraries/cudnn_planning.hpp"
#include "dry_cuda/libraries/real_library.hpp"
#include "dry_cuda/report/memory_sources.hpp"
#include "dry_cuda/report/report_page.hpp"

#include <cudnn_backend.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace maxbatch::dry {
namespace {

CudnnPlanning& planning() {
  static auto* const instance = new CudnnPlanning;  // never destroyed: descriptors are, after static objects
  return *instance;
}

/// What was answered for a plan, and what a variant pack says of the memory that it is run with.
class Workspaces {
 public:
  /// `kernel`: the plan's, as `kernel_of` numbers it.
  void answered(cudnnBackendDescriptor_t plan, ScratchAnswer const& answer, std::uint64_t kernel) {
    std::lock_guard<std::mutex> const lock(mutex_);
    answers_[plan] = answer;
    kernels_[plan] = kernel;
  }
  /// Nothing when the plan's workspace was not asked for.
  std::optional<std::uint64_t> kernel(cudnnBackendDescriptor_t plan) {
    std::lock_guard<std::mutex> const lock(mutex_);
    auto const found = kernels_.find(plan);
    return found == kernels_.end() ? std::nullopt : std::optional(found->second);
  }
  void given(cudnnBackendDescriptor_t pack, void* memory) {
    std::lock_guard<std::mutex> const lock(mutex_);
    memory_[pack] = memory;
  }
  void destroyed(cudnnBackendDescriptor_t descriptor) {
    std::lock_guard<std::mutex> const lock(mutex_);
    answers_.erase(descriptor);
    kernels_.erase(descriptor);
    memory_.erase(descriptor);
  }
  void executed(cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
    ScratchAnswer answer;
    void* memory = nullptr;
    {
      std::lock_guard<std::mutex> const lock(mutex_);
      auto const found = answers_.find(plan);
      auto const place = memory_.find(pack);
      if (found == answers_.end() || place == memory_.end()) return;
      answer = found->second;
      memory = place->second;
    }
    scratch_is_at(answer, memory);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<cudnnBackendDescriptor_t, ScratchAnswer> answers_;
  std::unordered_map<cudnnBackendDescriptor_t, std::uint64_t> kernels_;
  std::unordered_map<cudnnBackendDescriptor_t, void*> memory_;
};

Workspaces& workspaces() {
  static auto* const instance = new Workspaces;
  return *instance;
}

cudnnStatus_t real_get(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                       cudnnBackendAttributeType_t type, std::int64_t requested, std::int64_t* count, void* elements) {
  return MAXBATCH_DRY_REAL(kCudnn, cudnnBackendGetAttribute)(descriptor, name, type, requested, count, elements);
}

cudnnStatus_t real_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                       cudnnBackendAttributeType_t type, std::int64_t count, void const* elements) {
  return MAXBATCH_DRY_REAL(kCudnn, cudnnBackendSetAttribute)(descriptor, name, type, count, elements);
}

/// Hands a descriptor the card's properties, where a program would have handed it a handle or left cuDNN to find its device.
cudnnStatus_t describe_device_to(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name) {
  cudnnBackendDescriptor_t const card = device_description();
  if (card == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  return real_set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &card);
}

CudnnPlanning::EngineNotes notes_of(cudnnBackendDescriptor_t configuration) {
  CudnnPlanning::EngineNotes notes;
  cudnnBackendDescriptor_t engine = nullptr;
  if (MAXBATCH_DRY_REAL(kCudnn, cudnnBackendCreateDescriptor)(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
      CUDNN_STATUS_SUCCESS) {
    return notes;
  }
  std::int64_t count = 0;
  cudnnBackendNumericalNote_t found[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  if (real_get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) ==
          CUDNN_STATUS_SUCCESS &&
      real_get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
               &count, found) == CUDNN_STATUS_SUCCESS) {
    auto const has = [&](cudnnBackendNumericalNote_t note) {
      return std::find(found, found + count, note) != found + count;
    };
    notes.tensor_core = has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    notes.down_converts_inputs = has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
    notes.nondeterministic = has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  }
  MAXBATCH_DRY_REAL(kCudnn, cudnnBackendDestroyDescriptor)(engine);
  return notes;
}

void remember_configurations(cudnnBackendDescriptor_t heuristics, std::int64_t count, void const* elements) {
  if (!planning().plans_a_convolution(heuristics)) return;
  auto const* const configurations = static_cast<cudnnBackendDescriptor_t const*>(elements);
  std::vector<CudnnPlanning::EngineNotes> notes;
  for (std::int64_t i = 0; i < count; ++i) notes.push_back(notes_of(configurations[i]));
  planning().configurations_found(heuristics, configurations, notes);
}

void count_question(bool is_new) {
  static std::atomic<std::int64_t> count{0};
  if (is_new) process_record().questions = ++count;
}

/// What a table knows of the same convolution at other batch sizes, if it does for each of the questions.
std::optional<std::int64_t> near_bytes(std::vector<std::string> const& questions) {
  std::optional<std::int64_t> most;
  for (auto const& question : questions) {
    auto const bytes = convolution_table().find_near(question);
    if (!bytes) return std::nullopt;
    most = std::max(most.value_or(0), *bytes);
  }
  return most;
}

/// The workspace of a plan: a real card's, if one was asked about this convolution or, for the first plan, about it at other
/// batch sizes; else the one that cuDNN planned here.
ScratchAnswer workspace_of(cudnnBackendDescriptor_t plan, std::int64_t planned_bytes) {
  auto const convolution = planning().convolution_of(plan);
  if (!convolution) return certain(MemorySource::graph, planned_bytes);
  std::optional<std::int64_t> recorded;
  for (auto const& question : convolution->questions) {
    // Where the engines do not tell what was asked, the larger answer: too much is seen, too little is a surprise on a card.
    if (auto const bytes = convolution_table().find(question, convolution->rank)) {
      recorded = std::max(recorded.value_or(0), *bytes);
    }
  }
  // A plan behind the first is asked for when the first did not fit or is being timed; a table may know only the first.
  if (recorded) return certain(MemorySource::table, *recorded);
  if (convolution->rank == 0) {
    for (auto const& question : convolution->questions) count_question(convolution_questions().write(question));
    if (auto const near = near_bytes(convolution->questions)) {
      return near_workspace(convolution->questions, *near, planned_bytes);
    }
  }
  return planned_workspace(convolution->questions, planned_bytes);
}

/// A number for the kernel that a plan runs: the same for the same convolution at any batch size.
std::uint64_t kernel_of(cudnnBackendDescriptor_t plan) {
  auto const convolution = planning().convolution_of(plan);
  if (!convolution || convolution->questions.empty()) return 0;
  auto question = convolution->questions.front();  // "forward 16,128,32,32 ..."
  auto const batch = std::min(question.find(' '), question.size());
  question.erase(batch, std::min(question.find(','), question.size()) - batch);
  return std::hash<std::string>()(question) + static_cast<std::uint64_t>(convolution->rank);
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                              cudnnBackendDescriptor_t* descriptor) {
  auto const status = MAXBATCH_DRY_REAL(kCudnn, cudnnBackendCreateDescriptor)(type, descriptor);
  if (status == CUDNN_STATUS_SUCCESS) planning().created(*descriptor, type);
  return status;
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  // Before the real one: another thread may be given the same address at once.
  planning().destroyed(descriptor);
  workspaces().destroyed(descriptor);
  return MAXBATCH_DRY_REAL(kCudnn, cudnnBackendDestroyDescriptor)(descriptor);
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                          cudnnBackendAttributeName_t name,
                                                          cudnnBackendAttributeType_t type, std::int64_t count,
                                                          void const* elements) {
  if (type == CUDNN_TYPE_HANDLE) {  // ours, which the real library would look for a device in
    if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
      return describe_device_to(descriptor, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    if (name == CUDNN_ATTR_DEVICEPROP_HANDLE) {
      auto const json = device_description_json(card_profile());
      return real_set(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                      static_cast<std::int64_t>(json.size() + 1), json.c_str());
    }
    return CUDNN_STATUS_SUCCESS;
  }
  planning().attribute_set(descriptor, name, count, elements);
  if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE && count == 1 && elements != nullptr) {
    workspaces().given(descriptor, *static_cast<void* const*>(elements));
  }
  return real_set(descriptor, name, type, count, elements);
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                                          cudnnBackendAttributeName_t name,
                                                          cudnnBackendAttributeType_t type, std::int64_t requested,
                                                          std::int64_t* count, void* elements) {
  auto const status = real_get(descriptor, name, type, requested, count, elements);
  if (status != CUDNN_STATUS_SUCCESS || elements == nullptr) return status;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && count != nullptr) {
    remember_configurations(descriptor, std::min(*count, requested), elements);
  }
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE) planning().engine_read(descriptor);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && requested > 0) {
    auto* const bytes = static_cast<std::int64_t*>(elements);
    auto const answer = workspace_of(descriptor, *bytes);
    workspaces().answered(descriptor, answer, kernel_of(descriptor));
    count_scratch_answer(answer);
    *bytes = answer.bytes;
  }
  return status;
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  auto const type = planning().type_of(descriptor);
  if (type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) describe_device_to(descriptor, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  if (type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) describe_device_to(descriptor, CUDNN_ATTR_ENGINE_DEVICEPROP);
  auto const status = MAXBATCH_DRY_REAL(kCudnn, cudnnBackendFinalize)(descriptor);
  if (status == CUDNN_STATUS_SUCCESS && type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    planning().plan_finalized(descriptor);
  }
  return status;
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                                     cudnnBackendDescriptor_t pack) {
  auto const known = workspaces().kernel(plan);  // worked out once: a plan runs many times
  note_large_kernel({"cudnnBackendExecute", known ? *known : kernel_of(plan)});
  workspaces().executed(plan, pack);
  return CUDNN_STATUS_SUCCESS;
}
