#pragma once

#include <maxbatch/config.hpp>

#include <string_view>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// How much is known about an answer B. In every case but `nothing_fits` and an empty `best_so_far`, B itself ran.
enum class Proof {
  exhausted,           ///< every allowed size above B, up to the maximum, was tried and failed for memory
  bracketed,           ///< the next allowed size failed twice for memory; larger ones are not excluded
  at_allowed_maximum,  ///< B is the largest size that was allowed
  enough,              ///< B is what the caller said is enough; larger ones were not tried
  other_limit,         ///< the next allowed size fails, but not for memory: see the reason
  best_so_far,         ///< a budget of time or trials ran out, a stop was asked for, or the device was lost
  nothing_fits         ///< the smallest allowed size failed twice for memory
};

/// "exhausted", "bracketed", "at the allowed maximum", "enough", "other limit", "best so far", "nothing fits".
constexpr std::string_view to_string(Proof proof) {
  switch (proof) {
    case Proof::exhausted: return "exhausted";
    case Proof::bracketed: return "bracketed";
    case Proof::at_allowed_maximum: return "at the allowed maximum";
    case Proof::enough: return "enough";
    case Proof::other_limit: return "other limit";
    case Proof::best_so_far: return "best so far";
    case Proof::nothing_fits: return "nothing fits";
  }
  return "";
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
