#pragma once

#include <array>
#include <cstdint>

namespace maxbatch::dry {

/// One place where a program asked the card what depends on data, and what it was told. Plain data, as all of the report
/// page; only the data policies' library writes it, one thread at a time.
struct SiteRecord {
  std::array<char, 24> operation{};  ///< nonzero, item, ...
  std::array<char, 200> place{};     ///< who called; empty where that is not known
  std::array<char, 56> answer{};     ///< what decided the latest answer: a policy, a rule and its line, or "known"
  bool is_count = false;             ///< whether answers are counts out of something, or values
  std::int64_t calls = 0;
  std::int64_t counted = 0;  ///< of counts: the sum of the answers
  std::int64_t out_of = 0;   ///< and of what they were out of
  double latest_value = 0;   ///< of values
};

/// All of a process.
struct SiteRecords {
  static constexpr int kSites = 128;

  std::array<char, 160> policies{};  ///< in words: which policies were in force, or why none
  std::int32_t sites = 0;
  std::int32_t left_out = 0;  ///< sites for which there was no room
  std::array<SiteRecord, kSites> site;
};

}  // namespace maxbatch::dry
