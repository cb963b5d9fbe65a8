#pragma once

#include <maxbatch/report/report_subject.hpp>

#include <cstdint>
#include <utility>

namespace maxbatch::test {

constexpr std::int64_t kMiB = 1 << 20;

inline TrialRecord fitting_trial(std::int64_t batch_size, Bytes peak) {
  TrialRecord record;
  record.batch_size = batch_size;
  record.purpose = TrialPurpose::scout;
  record.outcome = TrialOutcome::fits(MemoryPeaks::all(peak), {{Phase::forward, MemoryPeaks::all(peak - Bytes{kMiB})},
                                                               {Phase::backward, MemoryPeaks::all(peak)}});
  record.outcome.steps = 3;
  record.seconds = 0.25;
  return record;
}

inline TrialRecord failing_trial(std::int64_t batch_size, TrialPurpose purpose) {
  TrialRecord record;
  record.batch_size = batch_size;
  record.purpose = purpose;
  record.outcome = TrialOutcome::out_of_memory("text with \"quotes\" and \x80 a broken byte");
  record.outcome.steps = 1;
  record.outcome.peaks = MemoryPeaks::all(Bytes{63 * kMiB});
  record.outcome.phases = {{Phase::forward, MemoryPeaks::all(Bytes{63 * kMiB})}};
  FailedRequest failed;
  failed.phase = Phase::backward;
  failed.requested = Bytes{2 * kMiB};
  failed.short_by_at_least = Bytes{1 * kMiB};
  record.outcome.failed_request = failed;
  record.seconds = 0.5;
  return record;
}

/// 12 fits in 60 of 64 MiB, of which 4 are kept free; 13 failed twice.
inline FinderResult made_up_result() {
  FinderResult result;
  result.device.name = "cpu under a budget";
  result.device.total = Bytes{1024 * kMiB};
  result.device.budget = Bytes{60 * kMiB};
  result.headroom = Bytes{4 * kMiB};
  result.steps = 3;
  result.warnings = {"a warning"};
  auto& search = result.search;
  search.batch_size = 12;
  search.proof = Proof::bracketed;
  search.reason = "batch size 13: out of memory, twice";
  search.next_batch_size = 13;
  search.largest_clean_batch_size = 12;
  search.seconds = 1.25;
  search.trials = {fitting_trial(1, Bytes{10 * kMiB}), fitting_trial(12, Bytes{60 * kMiB}),
                   failing_trial(13, TrialPurpose::predicted), failing_trial(13, TrialPurpose::repeat)};
  return result;
}

inline FinderResult made_up_result_where_nothing_fits() {
  auto result = made_up_result();
  auto& search = result.search;
  search.batch_size.reset();
  search.largest_clean_batch_size.reset();
  search.proof = Proof::nothing_fits;
  search.reason = "batch size 1: out of memory, twice";
  search.next_batch_size = 1;
  search.trials = {failing_trial(1, TrialPurpose::scout), failing_trial(1, TrialPurpose::repeat)};
  return result;
}

inline ReportSubject made_up_subject() {
  ReportSubject subject;
  subject.model = "net";
  subject.recipe.image_size = ImageSize{32, 48};
  return subject;
}

}  // namespace maxbatch::test
