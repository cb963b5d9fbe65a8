#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocation_program.hpp>
#include <maxbatch/simulation/size_law.hpp>
#include <maxbatch/simulation/trace_alignment.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

struct ScalingOptions {
  ReductionHardware recorded_on;  // the default is an H200
  ReductionHardware scaled_to;
  /// cuBLAS's workspaces have another size on the other card: {there, here}. See docs/prediction.md.
  std::optional<std::pair<Bytes, Bytes>> matrix_workspace;
};

/// On what a scaled program rests, by SizeLaw::Kind.
struct ScalingStatement {
  struct Share {
    std::size_t requests = 0;
    Bytes at_peak;  // of what is live when the program's requests sum to most
  };
  std::array<Share, 5> by_law;      // indexed by SizeLaw::Kind
  Share only_in_larger;             // requests that only the larger recordings make; their law is a guess
  std::size_t only_in_smaller = 0;  // requests that only a smaller recording makes; left out
  std::size_t loops = 0;            // places where each further sample adds requests
  std::size_t loop_requests = 0;    // that were added, or taken away
  std::size_t reductions_begun =
      0;       // sums over rows that need scratch at this size and did not where they were recorded
  Bytes peak;  // the sum of `at_peak`

  Share const& of(SizeLaw::Kind kind) const { return by_law.at(static_cast<std::size_t>(kind)); }
};

/// What recordings of one program at several batch sizes say about the others.
///
/// The largest recording is the pattern: its requests keep their order, sizes follow their laws, loops over samples get
/// further iterations, and sums that outgrow one thread block get their scratch. Outside of the recorded sizes all of it is
/// extrapolation; `statement` says of what.
/// Threads: immutable.
class TraceScaling {
 public:
  /// Two recordings or more, in any order.
  /// Throws: InvalidArgument for fewer, for a batch size given twice or below 1; TraceError where they are not of one
  /// program.
  explicit TraceScaling(std::vector<SizedProgram> recordings, ScalingOptions const& options = {});

  /// The program at `batch_size`; where that was recorded and the hardware is the same, the recording itself.
  /// Throws: InvalidArgument below 1.
  AllocationProgram at(std::int64_t batch_size) const;
  ScalingStatement statement(std::int64_t batch_size) const;

  /// Ascending.
  std::vector<SizedProgram> const& recordings() const { return recordings_; }
  /// Whether the recording makes the same requests as the largest one, but for loops and sums; the laws come from those
  /// that do, or from the next smaller one if none does.
  std::vector<bool> const& has_same_structure() const { return has_same_structure_; }
  /// Requests whose sizes lie on no law, though three recordings or more have them.
  std::size_t checked_requests() const { return checked_requests_; }
  std::size_t disproved_requests() const { return disproved_requests_; }
  /// Each request of the largest recording.
  std::vector<SizeLaw> const& laws() const { return laws_; }
  /// The first request that only the largest one has, where the structures differ.
  std::optional<std::uint32_t> first_new_request() const { return first_new_request_; }
  /// The first request that depends on the batch size: the set-up is over.
  std::optional<std::uint32_t> first_sample_request() const;

 private:
  /// A sum over rows that has no scratch at the largest recorded size.
  struct DormantReduction {
    std::uint32_t output = 0;  // the request that scratch would follow
    ReductionScratch scratch;
  };
  struct Builder;

  void choose_structure();
  void fit_laws();
  void find_reductions(std::vector<std::vector<RecordedSize>> const& sizes);
  void find_workspaces();
  SizedProgram const& pattern() const { return recordings_.back(); }

  std::vector<SizedProgram> recordings_;
  ScalingOptions options_;
  std::vector<TraceAlignment> alignments_;  // of each but the largest with the largest
  std::vector<bool> has_same_structure_;
  std::vector<std::size_t> fitted_;  // recordings that the laws come from, ascending, without the largest

  // Per request of the largest recording.
  std::vector<RequestLifetime> lifetimes_;
  std::vector<SizeLaw> laws_;
  std::vector<std::uint8_t> is_unmatched_;
  std::vector<std::uint8_t> is_counter_;   // comes and goes with the scratch before it
  std::vector<DormantReduction> dormant_;  // ascending
  std::vector<TraceLoop> loops_;

  std::size_t only_in_smaller_ = 0;
  std::size_t checked_requests_ = 0;
  std::size_t disproved_requests_ = 0;
  std::optional<std::uint32_t> first_new_request_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/scaled_program_builder.hpp>
#include <maxbatch/impl/simulation/trace_scaling_inl.hpp>
#endif
