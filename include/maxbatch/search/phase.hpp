#pragma once

#include <maxbatch/config.hpp>

#include <array>
#include <string_view>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// The parts of a training step whose memory follows laws of their own.
/// `other` is what runs in a step outside every named phase.
enum class Phase { setup, forward, backward, optimizer, evaluation, other };

constexpr std::array<Phase, 6> kAllPhases = {Phase::setup,     Phase::forward,    Phase::backward,
                                             Phase::optimizer, Phase::evaluation, Phase::other};

constexpr std::string_view to_string(Phase phase) {
  constexpr std::array<std::string_view, 6> names = {"setup",     "forward",    "backward",
                                                     "optimizer", "evaluation", "other"};
  return names[static_cast<std::size_t>(phase)];
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
