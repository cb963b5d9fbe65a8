#pragma once

#include <maxbatch/impl/simulation/scratch_with_counter.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/simulation/trace_scaling.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Smaller ones are left what they are: it would not matter.
constexpr std::int64_t kSmallestWorkspace = std::int64_t{64} << 10;

/// The last of three requests with nothing between, as the backward pass of a linear layer makes them: the gradients of
/// the input [rows, inputs], the weight [outputs, inputs] and the bias [outputs]. Rows and outputs follow from the sizes.
struct LinearBackward {
  std::int64_t output_bytes = 0;
  std::int64_t row_bytes_per_sample = 0;  // rows x bytes of an element
};

inline std::optional<LinearBackward> linear_backward(AllocationProgram const& program,
                                                     std::vector<RequestLifetime> const& lives,
                                                     std::vector<SizeLaw> const& laws, std::uint32_t bias,
                                                     std::int64_t batch_size) {
  if (bias < 2 || lives[bias].begins != lives[bias - 2].begins + 2 || lives[bias].is_momentary()) {
    return std::nullopt;
  }
  auto const input_bytes = program.requests[bias - 2].size;
  auto const weight_bytes = program.requests[bias - 1].size;
  auto const bias_bytes = program.requests[bias].size;
  auto const is_constant = [&](std::uint32_t request) { return laws[request].kind == SizeLaw::Kind::constant; };
  if (is_constant(bias - 2) || !is_constant(bias - 1) || !is_constant(bias)) { return std::nullopt; }
  if (bias_bytes < 1 || weight_bytes < 1 || weight_bytes % bias_bytes != 0) { return std::nullopt; }
  auto const inputs = weight_bytes / bias_bytes;
  if (inputs == 1) { return std::nullopt; }  // a normalisation's scale and shift
  if (input_bytes % (inputs * batch_size) != 0) { return std::nullopt; }
  return LinearBackward{bias_bytes, input_bytes / inputs / batch_size};
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE TraceScaling::TraceScaling(std::vector<SizedProgram> recordings, ScalingOptions const& options)
    : recordings_(std::move(recordings)), options_(options) {
  if (recordings_.size() < 2) {
    throw InvalidArgument("scaling needs recordings of two batch sizes or more; there are " +
                          std::to_string(recordings_.size()));
  }
  std::sort(recordings_.begin(), recordings_.end(),
            [](auto const& a, auto const& b) { return a.batch_size < b.batch_size; });
  for (std::size_t i = 0; i < recordings_.size(); ++i) {
    detail::require_at_least_one(recordings_[i].batch_size, "batch size");
    if (i > 0 && recordings_[i].batch_size == recordings_[i - 1].batch_size) {
      throw InvalidArgument("two recordings of batch size " + std::to_string(recordings_[i].batch_size) +
                            "; scaling needs different ones");
    }
  }
  for (std::size_t i = 0; i + 1 < recordings_.size(); ++i) {
    alignments_.push_back(align_programs(recordings_[i], recordings_.back()));
  }
  lifetimes_ = lifetimes_of(pattern().program);
  choose_structure();
  fit_laws();
  find_workspaces();
}

MAXBATCH_INLINE void TraceScaling::choose_structure() {
  // Scratch of reductions comes and goes by a law that is known; so its absence is no other structure.
  auto const& requests = pattern().program.requests;
  auto const is_reduction = [&](std::uint32_t scratch) {
    if (scratch == 0 || scratch + 1 >= requests.size()) { return false; }
    return detail::is_scratch_with_counter(pattern().program, lifetimes_, scratch) &&
           reduction_of({{pattern().batch_size, requests[scratch].size}}, requests[scratch - 1].size,
                        requests[scratch + 1].size, {}, options_.recorded_on)
               .has_value();
  };
  has_same_structure_.assign(recordings_.size(), true);
  for (std::size_t i = 0; i < alignments_.size(); ++i) {
    auto& alignment = alignments_[i];
    auto is_new = [&](std::uint32_t request) { return alignment.smaller_of[request] == TraceAlignment::kNone; };
    std::optional<std::uint32_t> first;
    std::size_t explained = 0;
    for (std::uint32_t request = 0; request < requests.size(); ++request) {
      if (!is_new(request)) { continue; }
      if (is_reduction(request) && is_new(request + 1)) {
        explained += 1;  // the counters are momentary, and not counted
        ++request;
      } else if (!first && !lifetimes_[request].is_momentary()) {
        first = request;
      }
    }
    alignment.only_in_larger -= std::min(explained, alignment.only_in_larger);
    alignment.first_only_in_larger = alignment.only_in_larger > 0 ? first : std::nullopt;
    has_same_structure_[i] = alignment.same_structure();
  }
  for (std::size_t i = 0; i < alignments_.size(); ++i) {
    if (has_same_structure_[i]) { fitted_.push_back(i); }
  }
  if (fitted_.empty()) { fitted_.push_back(alignments_.size() - 1); }
  auto const& nearest = alignments_[fitted_.back()];
  loops_ = nearest.loops;
  only_in_smaller_ = nearest.only_in_smaller;
  first_new_request_ = nearest.first_only_in_larger;
}

MAXBATCH_INLINE void TraceScaling::fit_laws() {
  auto const& requests = pattern().program.requests;
  std::vector<std::vector<RecordedSize>> sizes(requests.size());
  laws_.resize(requests.size());
  is_unmatched_.assign(requests.size(), 0);
  is_counter_.assign(requests.size(), 0);
  for (std::uint32_t request = 0; request < requests.size(); ++request) {
    for (auto const i : fitted_) {
      auto const counterpart = alignments_[i].smaller_of[request];
      if (counterpart == TraceAlignment::kNone) { continue; }
      sizes[request].emplace_back(recordings_[i].batch_size, recordings_[i].program.requests[counterpart].size);
    }
    is_unmatched_[request] = sizes[request].empty() ? 1 : 0;
    sizes[request].emplace_back(pattern().batch_size, requests[request].size);
    laws_[request] = size_law_of(sizes[request]);
  }
  // What only the pattern has: most others of its size say what it is.
  for (std::uint32_t request = 0; request < requests.size(); ++request) {
    if (is_unmatched_[request] == 0) { continue; }
    auto& law = laws_[request];
    auto const growing = std::any_of(laws_.begin(), laws_.end(), [&](SizeLaw const& other) {
      return other.kind == SizeLaw::Kind::affine && other.base_size == law.base_size;
    });
    if (growing || (lifetimes_[request].is_momentary() && law.base_size >= detail::kSmallestWorkspace)) {
      law.kind = SizeLaw::Kind::jumping;
      law.step_size = law.base_size;
      law.step_batch_size = law.base_batch_size;
    }
  }
  for (auto const& loop : loops_) {  // one iteration asks for what another does
    for (auto request = loop.begin; request < loop.end(); ++request) {
      laws_[request] = SizeLaw{};
      laws_[request].base_size = requests[request].size;
      laws_[request].base_batch_size = pattern().batch_size;
      is_unmatched_[request] = 0;
    }
  }
  find_reductions(sizes);
  for (std::uint32_t request = 0; request < requests.size(); ++request) {
    if (sizes[request].size() < 3) { continue; }
    ++checked_requests_;
    if (laws_[request].kind == SizeLaw::Kind::jumping) { ++disproved_requests_; }
  }
}

MAXBATCH_INLINE void TraceScaling::find_reductions(std::vector<std::vector<RecordedSize>> const& sizes) {
  auto const& program = pattern().program;
  auto const& requests = program.requests;
  std::vector<std::int64_t> row_bytes;  // of all tensors that grow with the batch, per sample
  for (auto const& law : laws_) {
    if (law.kind == SizeLaw::Kind::affine && law.base_size % law.base_batch_size == 0) {
      row_bytes.push_back(law.base_size / law.base_batch_size);
    }
  }
  std::sort(row_bytes.begin(), row_bytes.end());
  row_bytes.erase(std::unique(row_bytes.begin(), row_bytes.end()), row_bytes.end());

  std::int64_t element_bytes = 4;
  for (std::uint32_t scratch = 1; scratch + 1 < requests.size(); ++scratch) {
    if (!detail::is_scratch_with_counter(program, lifetimes_, scratch)) { continue; }
    auto const output_bytes = requests[scratch - 1].size;
    auto const counter_bytes = requests[scratch + 1].size;
    // Where the layer is known, its rows are.
    std::vector<std::int64_t> known_rows = row_bytes;
    if (auto const layer = detail::linear_backward(program, lifetimes_, laws_, scratch - 1, pattern().batch_size)) {
      known_rows = {layer->row_bytes_per_sample * output_bytes / 4, layer->row_bytes_per_sample * output_bytes / 2};
      std::sort(known_rows.begin(), known_rows.end());
    }
    auto const found = reduction_of(sizes[scratch], output_bytes, counter_bytes, known_rows, options_.recorded_on);
    if (!found) { continue; }
    laws_[scratch].kind = SizeLaw::Kind::reduction;
    laws_[scratch].reduction = *found;
    is_unmatched_[scratch] = 0;
    is_unmatched_[scratch + 1] = 0;
    is_counter_[scratch + 1] = 1;
    if (found->outputs > 0) { element_bytes = output_bytes / found->outputs; }
  }
  for (std::uint32_t bias = 2; bias < requests.size(); ++bias) {
    if (bias + 1 < requests.size() && laws_[bias + 1].kind == SizeLaw::Kind::reduction) { continue; }
    auto const layer = detail::linear_backward(program, lifetimes_, laws_, bias, pattern().batch_size);
    if (!layer || layer->output_bytes % element_bytes != 0 || layer->row_bytes_per_sample % element_bytes != 0) {
      continue;
    }
    ReductionScratch const scratch{layer->output_bytes / element_bytes, layer->row_bytes_per_sample / element_bytes};
    if (scratch.bytes(pattern().batch_size, options_.recorded_on) == 0) { dormant_.push_back({bias, scratch}); }
  }
}

MAXBATCH_INLINE void TraceScaling::find_workspaces() {
  auto& requests = recordings_.back().program.requests;
  for (std::uint32_t request = 0; request < requests.size(); ++request) {
    auto& law = laws_[request];
    auto const is_in_proportion = law.base_size * law.step_batch_size == law.step_size * law.base_batch_size;
    auto const follows_no_tensor = law.kind == SizeLaw::Kind::jumping ||
                                   (law.kind == SizeLaw::Kind::affine && !is_in_proportion) ||
                                   (is_unmatched_[request] != 0 && law.kind != SizeLaw::Kind::reduction);
    if (!lifetimes_[request].is_momentary() || law.base_size < detail::kSmallestWorkspace || !follows_no_tensor ||
        is_counter_[request] != 0) {
      continue;
    }
    law.kind = SizeLaw::Kind::workspace;
    requests[request].is_workspace = true;
    for (std::size_t i = 0; i < alignments_.size(); ++i) {
      auto const counterpart = alignments_[i].smaller_of[request];
      if (counterpart != TraceAlignment::kNone) { recordings_[i].program.requests[counterpart].is_workspace = true; }
    }
  }
}

MAXBATCH_INLINE std::optional<std::uint32_t> TraceScaling::first_sample_request() const {
  auto const found =
      std::find_if(laws_.begin(), laws_.end(), [](SizeLaw const& law) { return law.kind != SizeLaw::Kind::constant; });
  if (found == laws_.end()) { return std::nullopt; }
  return static_cast<std::uint32_t>(found - laws_.begin());
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
