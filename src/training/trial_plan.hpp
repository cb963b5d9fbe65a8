#pragma once

#include <maxbatch/training/finder_options.hpp>
#include <maxbatch/training/trial.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace maxbatch::detail {

/// What the steps of every trial of one search do; only the searched number differs.
struct TrialPlan {
  std::int64_t steps = 3;
  std::vector<StepMode> order = {StepMode::train};
  bool allow_swallowed_out_of_memory = false;
  std::optional<std::int64_t> batch_size;  ///< fixed, while something else is searched
  /// The image of a step, given the searched number; none: `image_size`.
  std::function<ImageSize(std::int64_t searched, std::int64_t step_index)> image_size_of;
  std::optional<ImageSize> image_size;

  /// `steps`, filled up to whole rounds of `order`.
  std::int64_t step_count() const {
    auto const round = static_cast<std::int64_t>(order.size());
    return (steps + round - 1) / round * round;
  }

  Trial::Setting setting(std::int64_t searched, std::int64_t step_index, c10::Device device) const {
    Trial::Setting setting;
    setting.batch_size = batch_size.value_or(searched);
    setting.device = device;
    setting.step_index = step_index;
    setting.mode = order[static_cast<std::size_t>(step_index) % order.size()];
    setting.image_size = image_size_of ? std::optional(image_size_of(searched, step_index)) : image_size;
    return setting;
  }
};

}  // namespace maxbatch::detail
