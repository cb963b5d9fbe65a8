#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/simulation/modelled_peak.hpp>
#include <maxbatch/simulation/trace_replay.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch::cli {

/// What replaying one recording showed; of several draws of modelled addresses, the most frequent.
struct ReplayEntry {
  std::string file;
  std::optional<int> device_index;  // where a file holds several devices
  std::optional<Bytes> budget;
  std::string card;                // empty: none was named
  std::string allocator_settings;  // empty: LibTorch's defaults
  std::size_t event_count = 0;

  ReplayOutcome outcome;
  Fragmentation at_peak;
  FittingLimits limits;
  std::optional<ModelledPeak> draws;             // of the reserved peak, where addresses were modelled
  std::optional<Bytes> highest_smallest_budget;  // of all draws
  std::vector<std::string> notes;
};

/// For people, and as JSON, each ended by a newline.
std::string replay_text(std::vector<ReplayEntry> const& entries);
std::string replay_json(std::vector<ReplayEntry> const& entries);

}  // namespace maxbatch::cli
