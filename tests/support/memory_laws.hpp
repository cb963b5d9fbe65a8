#pragma once

#include "support/scripted_probe.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace maxbatch::test {

inline std::int64_t rounded_up(double bytes, std::int64_t granule) {
  return static_cast<std::int64_t>(std::ceil(bytes / static_cast<double>(granule))) * granule;
}

/// Random ways in which a step's memory depends on its batch. Bytes, by phase.
enum class LawKind { affine, kinked, stepped, noisy, non_monotone, unmeasured };
constexpr LawKind kAllLawKinds[] = {LawKind::affine, LawKind::kinked,       LawKind::stepped,
                                    LawKind::noisy,  LawKind::non_monotone, LawKind::unmeasured};

inline bool is_monotone(LawKind kind) { return kind != LawKind::noisy && kind != LawKind::non_monotone; }

inline ScriptedProbe::Law random_law(LawKind kind, std::mt19937_64& random) {
  auto const uniform = [&random](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  auto const floor = uniform(0, 1e9);
  auto const slope = std::exp(uniform(std::log(1.0), std::log(1e8)));
  auto const second_floor = floor + uniform(0, 1) * slope * std::exp(uniform(0, std::log(1e5)));
  auto const step = 1 + static_cast<std::int64_t>(std::exp(uniform(0, std::log(3000.0))));
  auto const seed = random();
  auto const noise_at = [seed](std::int64_t size) {
    std::mt19937_64 at_size(seed ^ static_cast<std::uint64_t>(size) * 0x9E3779B97F4A7C15u);
    return std::uniform_real_distribution<double>(0, 1)(at_size);
  };
  return [=](std::int64_t size) {
    auto bytes = floor + slope * static_cast<double>(size);
    std::vector<PhasePeaks> phases;
    switch (kind) {
      case LawKind::affine:
      case LawKind::unmeasured: break;
      case LawKind::kinked:
        phases.push_back(phase_at(Phase::optimizer, static_cast<std::int64_t>(second_floor)));
        break;
      case LawKind::stepped: bytes = floor + slope * static_cast<double>((size + step - 1) / step * step); break;
      case LawKind::noisy: bytes += slope * 5 * noise_at(size); break;
      case LawKind::non_monotone: bytes += noise_at(size) < 0.1 ? slope * static_cast<double>(size) * 0.3 : 0; break;
    }
    phases.push_back(phase_at(Phase::backward, static_cast<std::int64_t>(bytes)));
    return phases;
  };
}

}  // namespace maxbatch::test
