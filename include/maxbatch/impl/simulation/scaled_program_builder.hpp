#pragma once

#include <maxbatch/search/errors.hpp>
#include <maxbatch/simulation/trace_scaling.hpp>

#include <algorithm>
#include <utility>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Writes the pattern's operations again, at another batch size.
struct TraceScaling::Builder {
  using Kind = ProgramOperation::Kind;
  static constexpr auto kNone = TraceAlignment::kNone;
  static constexpr std::uint8_t kOnlyInLarger = 5;  // beside SizeLaw::Kind

  /// Further iterations of one loop: what the template iteration does, and which requests the copies made.
  struct LoopCopies {
    TraceLoop loop;
    std::uint32_t begin = 0;     // the template's first request
    std::uint32_t copies = 0;    // iterations to add
    std::uint32_t left_out = 0;  // iterations to leave out instead
    std::uint32_t at = 0;        // the operation that they come before
    std::vector<ProgramOperation> operations;
    std::vector<std::uint32_t> made;  // [copy x period + offset]

    bool is_template(std::uint32_t request) const { return request >= begin && request < begin + loop.period; }
    /// A newest-first loop loses its first iterations, the other its last ones.
    bool leaves_out(std::uint32_t request) const {
      if (!loop.holds(request)) { return false; }
      auto const iteration = (request - loop.begin) / loop.period;
      return loop.newest_first ? iteration < left_out : iteration >= loop.count - left_out;
    }
  };

  Builder(TraceScaling const& scaling, std::int64_t batch_size)
      : scaling_(scaling),
        pattern_(scaling.pattern().program),
        batch_size_(batch_size),
        id_of_(pattern_.requests.size(), kNone),
        is_freed_(pattern_.requests.size(), 0) {
    result_.streams = pattern_.streams;
    result_.labels = pattern_.labels;
    result_.pools = pattern_.pools;
    result_.requests.reserve(pattern_.requests.size() + 1024);
    result_.operations.reserve(pattern_.operations.size() + 2048);
    for (auto const& loop : scaling.loops_) { plan(loop); }
  }

  Builder& build() {
    auto mark = pattern_.marks.begin();
    auto dormant = scaling_.dormant_.begin();
    auto copies = by_operation_.begin();
    for (std::uint32_t at = 0; at < pattern_.operations.size(); ++at) {
      for (; copies != by_operation_.end() && loops_[*copies].at <= at; ++copies) { write_copies(loops_[*copies]); }
      for (; mark != pattern_.marks.end() && mark->event <= at; ++mark) { write_mark(*mark); }
      auto const& operation = pattern_.operations[at];
      switch (operation.kind) {
        case Kind::allocate:
          allocate(operation.request);
          while (dormant != scaling_.dormant_.end() && dormant->output < operation.request) { ++dormant; }
          if (dormant != scaling_.dormant_.end() && dormant->output == operation.request &&
              id_of_[operation.request] != kNone) {
            wake(*dormant);
          }
          break;
        case Kind::free:
        case Kind::request_free: free(operation); break;
        case Kind::complete_free:
          if (id_of_[operation.request] != kNone) { write(Kind::complete_free, id_of_[operation.request]); }
          break;
        case Kind::empty_cache: write(Kind::empty_cache, 0); break;
      }
    }
    for (; copies != by_operation_.end(); ++copies) { write_copies(loops_[*copies]); }
    for (; mark != pattern_.marks.end(); ++mark) { write_mark(*mark); }
    program = std::move(result_);
    return *this;
  }

  ScalingStatement state() {
    build();
    ScalingStatement statement;
    statement.only_in_smaller = scaling_.only_in_smaller_;
    statement.loops = loops_.size();
    statement.loop_requests = loop_requests_;
    statement.reductions_begun = reductions_begun_;
    auto share_of = [&](std::uint32_t request) -> ScalingStatement::Share& {
      return origins_[request] == kOnlyInLarger ? statement.only_in_larger : statement.by_law[origins_[request]];
    };
    auto rounded = [&](std::uint32_t request) {
      return (std::max<std::int64_t>(program.requests[request].size, 1) + 511) / 512 * 512;
    };
    for (std::uint32_t request = 0; request < program.requests.size(); ++request) { ++share_of(request).requests; }
    auto const peak = least_peak(program).count;
    std::int64_t live = 0;
    std::vector<std::uint8_t> is_live(program.requests.size(), 0);
    for (auto const& operation : program.operations) {
      if (operation.kind == Kind::allocate) {
        live += rounded(operation.request);
        is_live[operation.request] = 1;
        if (live == peak) { break; }
      } else if (operation.kind == Kind::free || operation.kind == Kind::complete_free) {
        live -= rounded(operation.request);
        is_live[operation.request] = 0;
      }
    }
    for (std::uint32_t request = 0; request < is_live.size(); ++request) {
      if (is_live[request] != 0) { share_of(request).at_peak.count += rounded(request); }
    }
    statement.peak = Bytes{peak};
    return statement;
  }

  AllocationProgram program;

 private:
  std::uint32_t first_operation(std::uint32_t request) const {
    return request < scaling_.lifetimes_.size() ? scaling_.lifetimes_[request].begins
                                                : static_cast<std::uint32_t>(pattern_.operations.size());
  }

  void plan(TraceLoop const& loop) {
    LoopCopies plan;
    plan.loop = loop;
    auto const further = (batch_size_ - scaling_.pattern().batch_size) / loop.samples;
    if (further >= 0) {
      plan.copies = static_cast<std::uint32_t>(further);
    } else {
      plan.left_out = static_cast<std::uint32_t>(std::min<std::int64_t>(-further, loop.count));
    }
    plan.begin = loop.newest_first ? loop.begin : loop.end() - loop.period;
    // Another iteration, that was recorded at both sizes, says which frees belong to an iteration.
    auto const sibling = loop.newest_first ? loop.end() : loop.begin - loop.period;
    auto const sibling_frees = frees_of(sibling, loop.period);
    auto const first = first_operation(plan.begin);
    auto const last = first_operation(plan.begin + loop.period);
    auto end = first;
    for (auto at = first; at < last; ++at) {
      auto const& operation = pattern_.operations[at];
      auto const offset = static_cast<std::int64_t>(operation.request) - plan.begin;
      auto const belongs = operation.kind == Kind::allocate ||
                           std::find(sibling_frees.begin(), sibling_frees.end(), offset) != sibling_frees.end() ||
                           is_template_of_a_loop(operation.request);
      if (!belongs || operation.kind == Kind::empty_cache) { continue; }
      plan.operations.push_back(operation);
      end = at + 1;
    }
    plan.at = loop.newest_first ? first : end;
    plan.made.assign(static_cast<std::size_t>(plan.copies) * loop.period, kNone);
    by_operation_.push_back(loops_.size());
    loops_.push_back(std::move(plan));
  }

  /// Which requests are freed in an iteration, counted from its first.
  std::vector<std::int64_t> frees_of(std::uint32_t begin, std::uint32_t period) const {
    std::vector<std::int64_t> offsets;
    for (auto at = first_operation(begin); at < first_operation(begin + period); ++at) {
      auto const& operation = pattern_.operations[at];
      if (operation.kind == Kind::free || operation.kind == Kind::request_free) {
        offsets.push_back(static_cast<std::int64_t>(operation.request) - begin);
      }
    }
    return offsets;
  }

  bool is_template_of_a_loop(std::uint32_t request) const {
    return std::any_of(loops_.begin(), loops_.end(),
                       [request](LoopCopies const& plan) { return plan.is_template(request); });
  }

  LoopCopies* loop_of_template(std::uint32_t request) {
    for (auto& plan : loops_) {
      if (plan.copies > 0 && plan.is_template(request)) { return &plan; }
    }
    return nullptr;
  }

  bool is_left_out(std::uint32_t request) const {
    return std::any_of(loops_.begin(), loops_.end(),
                       [request](LoopCopies const& plan) { return plan.left_out > 0 && plan.leaves_out(request); });
  }

  std::uint32_t add(ProgramRequest const& request, std::uint8_t origin) {
    result_.requests.push_back(request);
    origins_.push_back(origin);
    return static_cast<std::uint32_t>(result_.requests.size() - 1);
  }
  void write(Kind kind, std::uint32_t request) { result_.operations.push_back({kind, request}); }
  void write_mark(TraceMark const& mark) {
    result_.marks.push_back(mark);
    result_.marks.back().event = result_.operations.size();
    result_.marks.back().statistics.clear();  // they are of another size
  }

  std::uint32_t make(std::uint32_t request) {
    auto made = pattern_.requests[request];
    auto const& law = scaling_.laws_[request];
    made.size = law.at(batch_size_, scaling_.options_.scaled_to);
    if (auto const& workspace = scaling_.options_.matrix_workspace;
        workspace && made.size == workspace->first.count && !scaling_.lifetimes_[request].is_freed()) {
      made.size = workspace->second.count;
    }
    auto const origin = scaling_.is_unmatched_[request] != 0 ? kOnlyInLarger : static_cast<std::uint8_t>(law.kind);
    auto const id = add(made, origin);
    write(Kind::allocate, id);
    return id;
  }

  void allocate(std::uint32_t request) {
    if (is_left_out(request)) {
      ++loop_requests_;
      return;
    }
    if (scaling_.is_counter_[request] != 0 && id_of_[request - 1] == kNone) { return; }
    if (scaling_.laws_[request].kind == SizeLaw::Kind::reduction &&
        scaling_.laws_[request].at(batch_size_, scaling_.options_.scaled_to) == 0) {
      return;
    }
    id_of_[request] = make(request);
  }

  void wake(DormantReduction const& dormant) {
    auto const bytes = dormant.scratch.bytes(batch_size_, scaling_.options_.scaled_to);
    if (bytes == 0) { return; }
    ++reductions_begun_;
    auto request = pattern_.requests[dormant.output];
    auto const kind = static_cast<std::uint8_t>(SizeLaw::Kind::reduction);
    request.size = bytes;
    auto const scratch = add(request, kind);
    write(Kind::allocate, scratch);
    request.size = dormant.scratch.counter_bytes();
    auto const counter = add(request, kind);
    write(Kind::allocate, counter);
    write(Kind::free, counter);
    write(Kind::free, scratch);
  }

  void free(ProgramOperation const& operation) {
    auto const request = operation.request;
    if (id_of_[request] != kNone && is_freed_[request] == 0) {
      write(operation.kind, id_of_[request]);
      is_freed_[request] = 1;
    }
    auto* const plan = loop_of_template(request);
    if (plan == nullptr || is_in_a_template(operation)) { return; }
    // Outside of loops: what the copies still hold goes with it.
    auto const offset = request - plan->begin;
    for (std::uint32_t copy = 0; copy < plan->copies; ++copy) { free_copy(*plan, copy, offset, operation.kind); }
  }

  bool is_in_a_template(ProgramOperation const& operation) const {
    return std::any_of(loops_.begin(), loops_.end(), [&](LoopCopies const& plan) {
      return plan.copies > 0 &&
             std::find(plan.operations.begin(), plan.operations.end(), operation) != plan.operations.end();
    });
  }

  void free_copy(LoopCopies& plan, std::uint32_t copy, std::uint32_t offset, Kind kind) {
    auto& made = plan.made[static_cast<std::size_t>(copy) * plan.loop.period + offset];
    if (made == kNone) { return; }
    write(kind, made);
    made = kNone;
  }

  void write_copies(LoopCopies& plan) {
    for (std::uint32_t i = 0; i < plan.copies; ++i) {
      // Copy 0 is the sample after the recorded ones.
      write_copy(plan, plan.loop.newest_first ? plan.copies - 1 - i : i);
    }
  }

  void write_copy(LoopCopies& plan, std::uint32_t copy) {
    auto const period = plan.loop.period;
    for (auto const& operation : plan.operations) {
      auto const request = operation.request;
      if (operation.kind == Kind::allocate) {
        plan.made[static_cast<std::size_t>(copy) * period + (request - plan.begin)] = make(request);
        ++loop_requests_;
        continue;
      }
      if (operation.kind == Kind::complete_free) { continue; }
      if (plan.is_template(request)) {
        free_copy(plan, copy, request - plan.begin, operation.kind);
      } else if (request < plan.begin && request + period >= plan.begin && !plan.loop.newest_first) {
        free_of_previous(plan, copy, request + period, operation.kind);
      } else if (auto* const other = loop_of_template(request); other != nullptr && copy < other->copies) {
        free_copy(*other, copy, request - other->begin, operation.kind);
      }
    }
  }

  /// The copy before is the template itself for the first one.
  void free_of_previous(LoopCopies& plan, std::uint32_t copy, std::uint32_t request, Kind kind) {
    if (copy > 0) {
      free_copy(plan, copy - 1, request - plan.begin, kind);
    } else if (id_of_[request] != kNone && is_freed_[request] == 0) {
      write(kind, id_of_[request]);
      is_freed_[request] = 1;
    }
  }

  TraceScaling const& scaling_;
  AllocationProgram const& pattern_;
  std::int64_t batch_size_;
  AllocationProgram result_;
  std::vector<std::uint8_t> origins_;   // of the result's requests
  std::vector<std::uint32_t> id_of_;    // in the result, of the pattern's requests
  std::vector<std::uint8_t> is_freed_;  // of the pattern's requests
  std::vector<LoopCopies> loops_;
  std::vector<std::size_t> by_operation_;  // indices of loops_; their places ascend
  std::size_t loop_requests_ = 0;
  std::size_t reductions_begun_ = 0;
};

MAXBATCH_INLINE AllocationProgram TraceScaling::at(std::int64_t batch_size) const {
  detail::require_at_least_one(batch_size, "batch size");
  auto const is_same_card = options_.recorded_on == options_.scaled_to && !options_.matrix_workspace;
  for (auto const& recording : recordings_) {
    if (recording.batch_size == batch_size && is_same_card) { return recording.program; }
  }
  return Builder(*this, batch_size).build().program;
}

MAXBATCH_INLINE ScalingStatement TraceScaling::statement(std::int64_t batch_size) const {
  detail::require_at_least_one(batch_size, "batch size");
  return Builder(*this, batch_size).state();
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
