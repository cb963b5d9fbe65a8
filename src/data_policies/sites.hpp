#pragma once

#include "operator_facts.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::dry {

struct PolicySurroundings;

/// What an operator in progress is told when it looks at the card. Made when it starts.
struct Site {
  bool is_left_to_card = false;  ///< nobody decided: what the card knows of its bytes, else zeros
  Asks asks = Asks::nothing;
  at::ScalarType type = at::kByte;  ///< of the elements looked at
  std::int64_t count = 0;           ///< of an operator that counts
  std::int64_t most = 0;
  double value = 0;   ///< of one that reads a value
  std::string bytes;  ///< of one whose values are known, or empty
  int reads = 0;      ///< so far
};

/// What is asked, and what would be answered if nobody had a rule for it.
struct SiteQuestion {
  Asks asks = Asks::nothing;
  at::ScalarType type = at::kByte;
  std::vector<std::int64_t> shape;
  std::vector<std::string_view> within;
  std::int64_t all = 0;                     ///< what the worst case stands for
  std::int64_t least = 0;                   ///< what there always is
  std::int64_t most = 0;                    ///< what there can be
  double value = 0;                         ///< of an unknown scalar
  std::optional<std::int64_t> known_count;  ///< where the data is known
  std::optional<std::string> known_bytes;   ///< of a scalar or a copy
  std::uintptr_t address = 0;               ///< of what is looked at
  at::Tensor mask;                          ///< whose count is the same wherever it is asked; undefined: none
};

/// Reads policy and rules from the environment. Throws: std::invalid_argument with a sentence.
void start_sites(PolicySurroundings const& surroundings);

/// Decides by rules, knowledge and policy, and notes it in the report. Ends the process when the same place has asked so
/// often, for so little work, that the program must be waiting for a value to change.
Site decide(SiteQuestion const& question);

/// Fills `host` with what the operator finds there. False: it is nothing that this operator decides by.
bool answer(Site& site, void* host, std::size_t bytes);

/// How often device memory was written by this thread.
std::int64_t& writes_of_this_thread();

}  // namespace maxbatch::dry
