#include "refusal_text.hpp"

namespace maxbatch::detail {
namespace {

/// Beyond this LibTorch's CUDA allocator speaks of a size computation that overflowed, and the classifier listens.
constexpr Bytes kOneExabyte{std::int64_t{1} << 60};

std::string both_ways(Bytes amount) { return to_string(amount) + " (" + std::to_string(amount.count) + " bytes)"; }

}  // namespace

std::string refusal_text(Refusal const& refusal) {
  auto const requested = refusal.request.requested;
  std::string text = "CPU out of memory (maxbatch budget). Tried to allocate ";
  text += requested > kOneExabyte ? "more than 1EB memory" : both_ways(requested);
  text += " in phase ";
  text += to_string(refusal.request.phase);
  text += "; " + to_string(refusal.free) + " of " + to_string(refusal.budget) + " are free (" +
          to_string(refusal.allocated) + " allocated";
  if (refusal.resident.count > 0) { text += ", " + to_string(refusal.resident) + " there before"; }
  text += ")";
  if (refusal.injected_at > 0) {
    text += " (injected: allocation " + std::to_string(refusal.injected_at) + " of this trial)";
  }
  return text;
}

}  // namespace maxbatch::detail
