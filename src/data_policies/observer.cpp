// Note [Watching operators]
// LibTorch calls us at the start and at the end of every operator that goes through its dispatcher, on every thread, by the
// interface that its profiler uses. No operator is replaced: LibTorch's own code for the card runs in every case, so the
// allocator sees what it would see on a card, and we decide only what a copy to the host in the middle of it finds.
#include "observer.hpp"

#include "computation.hpp"
#include "known_values.hpp"
#include "operator_facts.hpp"
#include "sites.hpp"

#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace maxbatch::dry {
namespace {

/// An operator in progress.
struct Frame {
  OperatorFacts const* facts = nullptr;  // null: not one of LibTorch's
  bool computed = false;                 // from known values, on the CPU
  bool written = false;                  // what it writes is in the mirrors already: nothing below it writes them again
  std::vector<c10::IValue> results;
  bool has_site = false;
};

struct ThisThread {
  std::vector<Frame> frames;
  std::vector<Site> sites;
  int written = 0;
  c10::weak_intrusive_ptr<c10::StorageImpl> all_true{c10::intrusive_ptr<c10::StorageImpl>()};
};

ThisThread& this_thread() {
  thread_local ThisThread mine;
  return mine;
}

bool any_on_card(c10::ArrayRef<c10::IValue const> inputs) {
  auto any = false;
  for_each_tensor(inputs, [&](std::size_t, at::Tensor const& tensor) { any = any || tensor.is_cuda(); });
  return any;
}

void forget_written(OperatorFacts const& facts, c10::ArrayRef<c10::IValue const> inputs) {
  if (facts.keeps_self || (facts.written.empty() && !facts.writes_unsaid)) { return; }
  for_each_tensor(inputs, [&](std::size_t i, at::Tensor const& tensor) {
    auto const written =
        facts.writes_unsaid || std::find(facts.written.begin(), facts.written.end(), i) != facts.written.end();
    if (written && tensor.is_cuda() && known_values::can_be_known(tensor)) { known_values::forget(tensor); }
  });
}

std::int64_t integer_argument(c10::ArrayRef<c10::IValue const> inputs, std::size_t index, std::int64_t otherwise) {
  return index < inputs.size() && inputs[index].isInt() ? inputs[index].toInt() : otherwise;
}

/// Nothing when the operator asks nothing of the card this time.
std::optional<SiteQuestion> question_of(OperatorFacts const& facts, c10::ArrayRef<c10::IValue const> inputs,
                                        Frame const& frame) {
  if (inputs.empty() || !inputs[0].isTensor()) { return std::nullopt; }
  auto const& self = inputs[0].toTensor();
  auto const* looked_at = &self;
  SiteQuestion question;
  question.asks = facts.asks;
  constexpr auto kAnyCount = std::numeric_limits<std::int32_t>::max();
  auto const first_result = [&]() -> at::Tensor {
    if (!frame.computed || frame.results.empty() || !frame.results[0].isTensor()) { return {}; }
    return frame.results[0].toTensor();
  }();
  switch (facts.asks) {
    case Asks::nothing: return std::nullopt;
    case Asks::nonzero: question.mask = self; [[fallthrough]];
    case Asks::nms:
    case Asks::unique:
      question.all = question.most = facts.asks == Asks::nms ? self.size(0) : self.numel();
      if (facts.asks == Asks::unique) {
        if (self.scalar_type() == at::kBool) { question.all = question.most = std::min<std::int64_t>(2, self.numel()); }
        question.least = std::min<std::int64_t>(1, question.most);
      }
      if (first_result.defined()) { question.known_count = first_result.size(0); }
      break;
    case Asks::unique_dim: {
      auto const dim = integer_argument(inputs, 1, 0);
      if (self.dim() == 0) { return std::nullopt; }
      question.all = question.most = self.size(dim);
      question.least = std::min<std::int64_t>(1, question.most);
      if (first_result.defined()) { question.known_count = first_result.size(dim); }
      break;
    }
    case Asks::coalesce:
      if (!self.is_sparse()) { return std::nullopt; }
      question.all = question.most = self._nnz();
      question.least = std::min<std::int64_t>(1, question.most);
      break;
    case Asks::repeat_interleave:
      question.all = self.numel();
      question.most = integer_argument(inputs, 1, kAnyCount);
      if (first_result.defined()) { question.known_count = first_result.numel(); }
      break;
    case Asks::bincount: {
      auto const least = integer_argument(inputs, 2, 0);
      question.all = least > 0 ? least : std::max<std::int64_t>(1, self.numel());
      question.least = std::max<std::int64_t>(1, least);
      question.most = kAnyCount;
      if (first_result.defined()) { question.known_count = first_result.numel(); }
      break;
    }
    case Asks::multinomial: break;
    case Asks::item:
      question.value = this_thread().all_true.lock().get() == self.storage().unsafeGetStorageImpl() ? 1 : 0;
      for (auto const& around : this_thread().frames) {
        if (around.facts != nullptr && around.facts->name == "aten::equal") { question.value = 1; }
      }
      question.known_bytes = known_bytes_for(self, self);
      break;
    case Asks::copy: {
      if (inputs.size() < 2 || !inputs[1].isTensor()) { return std::nullopt; }
      looked_at = &inputs[1].toTensor();
      constexpr std::size_t kMostBytes = 65536;  // more is data that nobody decides by
      if (!self.is_cpu() || !looked_at->is_cuda() || self.nbytes() > kMostBytes || self.numel() == 0) {
        return std::nullopt;
      }
      question.known_bytes = known_bytes_for(*looked_at, self);
      break;
    }
  }
  if (!looked_at->is_cuda()) { return std::nullopt; }
  question.type = self.scalar_type();
  question.shape = looked_at->sizes().vec();
  if (looked_at->has_storage()) { question.address = reinterpret_cast<std::uintptr_t>(looked_at->const_data_ptr()); }
  auto const& frames = this_thread().frames;
  for (auto around = frames.rbegin() + 1; around != frames.rend(); ++around) {
    if (around->facts != nullptr) { question.within.emplace_back(around->facts->name); }
  }
  return question;
}

void look_at(OperatorFacts const& facts, c10::ArrayRef<c10::IValue const> inputs, Frame& frame) {
  auto& mine = this_thread();
  if (facts.only_views || !any_on_card(inputs)) { return; }
  auto const writes = !facts.written.empty();
  if (!writes || mine.written == 0) {
    if (auto results = compute_from_known(facts, inputs)) {
      frame.computed = true;
      frame.results = std::move(*results);
      frame.written = writes;
      mine.written += writes ? 1 : 0;
    } else if (mine.written == 0) {
      forget_written(facts, inputs);
    }
  }
  // Inside another such operator the copies are its own.
  if (facts.asks == Asks::nothing || !mine.sites.empty()) { return; }
  if (auto const question = question_of(facts, inputs, frame)) {
    mine.sites.push_back(decide(*question));
    frame.has_site = true;
  }
}

std::unique_ptr<at::ObserverContext> started(at::RecordFunction const& call) {
  auto& mine = this_thread();
  auto const* const facts = facts_of(call);
  mine.frames.emplace_back();
  auto& frame = mine.frames.back();
  frame.facts = facts;
  if (facts == nullptr || !facts->handle) { return nullptr; }
  try {
    look_at(*facts, call.inputs(), frame);
  } catch (std::exception const&) {
    // An observer must not stop an operator. What it would have known is unknown.
    known_values::forget_all();
  }
  return nullptr;
}

void ended(at::RecordFunction const& call, at::ObserverContext*) {
  auto& mine = this_thread();
  if (mine.frames.empty()) { return; }
  auto const frame = std::move(mine.frames.back());
  mine.frames.pop_back();
  if (frame.has_site) { mine.sites.pop_back(); }
  if (frame.written) { --mine.written; }
  if (frame.facts == nullptr) { return; }
  try {
    if (frame.computed && frame.facts->written.empty()) { keep_results(frame.results, call.outputs()); }
    if (frame.facts->is_all && !call.outputs().empty() && call.outputs()[0].isTensor()) {
      auto const& result = call.outputs()[0].toTensor();
      if (result.has_storage()) { mine.all_true = result.storage().getWeakStorageImpl(); }
    }
  } catch (std::exception const&) { known_values::forget_all(); }
}

}  // namespace

void start_observer() {
  at::addGlobalCallback(at::RecordFunctionCallback(started, ended)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

bool answer_read_of_this_thread(void* host, std::size_t bytes) {
  auto& sites = this_thread().sites;
  return !sites.empty() && answer(sites.back(), host, bytes);
}

void note_written_by_this_thread() {
  ++writes_of_this_thread();
  // Outside of any operator nobody knows what was written.
  if (this_thread().frames.empty()) { known_values::forget_all(); }
}

}  // namespace maxbatch::dry
