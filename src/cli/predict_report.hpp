#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/simulation/batch_prediction.hpp>
#include <maxbatch/simulation/trace_scaling.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch::cli {

struct PredictedRecording {
  std::string file;
  std::int64_t batch_size = 0;
  std::size_t requests = 0;
  bool same_structure = false;  // as the largest one's
};

/// A prediction with all that its reader has to know.
struct PredictReport {
  std::vector<PredictedRecording> recordings;  // by batch size
  std::optional<Bytes> limit;                  // --budget
  std::string card;                            // --card; empty: none was named
  Bytes budget;                                // what reserved bytes can at most be
  std::string allocator_settings;              // empty: LibTorch's defaults
  std::string recorded_on;                     // the card that recordings are taken to be of
  BatchPrediction prediction;
  std::optional<ScalingStatement> statement;  // at the answer
  std::size_t checked_requests = 0;
  std::size_t disproved_requests = 0;
  std::vector<std::string> notes;
};

/// For people, and as JSON, each ended by a newline.
std::string predict_text(PredictReport const& report);
std::string predict_json(PredictReport const& report);

}  // namespace maxbatch::cli
