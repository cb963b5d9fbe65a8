#pragma once

#include "answer.hpp"
#include "call_place.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::dry {

/// What is known when an operator asks for a count or a value.
struct Question {
  std::string operation;                 ///< such as nonzero, unique, nms, item
  std::vector<std::int64_t> shape;       ///< of what is looked at
  std::vector<std::string_view> within;  ///< operators in progress around it, the innermost first
  CallPlace place;
  std::int64_t call = 0;  ///< of this operation at this place, counted from 0
};

/// One line of a rules file.
struct Rule {
  std::string operation;                                          ///< with * for anything
  std::string file;                                               ///< of the innermost frame; empty: any
  std::int64_t line = 0;                                          ///< 0: any
  std::string function;                                           ///< of any frame; empty: any
  std::string within;                                             ///< an operator around it; empty: any or none
  std::optional<std::vector<std::optional<std::int64_t>>> shape;  ///< with a hole where any size will do
  std::int64_t first_call = 0;
  std::int64_t last_call = std::numeric_limits<std::int64_t>::max();
  Answer answer;
  int number = 0;  ///< of the line
};

bool fits(Rule const& rule, Question const& question);

/// Reads rules, one a line; # begins a comment. `called` stands for the file in complaints.
/// Throws: std::invalid_argument: "FILE, line N: ...", with the word that was wrong.
std::vector<Rule> read_rules(std::string_view text, std::string const& called);
/// Throws: std::invalid_argument, also when the file cannot be read.
std::vector<Rule> read_rules_file(std::string const& path);

/// What the operations of questions are called, for `Rule::operation`.
std::vector<std::string_view> const& operation_names();

/// The first that fits, or null.
Rule const* find_rule(std::vector<Rule> const& rules, Question const& question);

/// Those that come with maxbatch: see rules/built_in.rules.
std::vector<Rule> const& built_in_rules();

}  // namespace maxbatch::dry
