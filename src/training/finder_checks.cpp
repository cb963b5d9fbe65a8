#include "finder_checks.hpp"

#include <maxbatch/search/errors.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

namespace maxbatch::detail {

void check_options(FinderOptions const& options) {
  require_at_least_one(options.steps, "steps");
  if (options.headroom.count < 0) {
    throw InvalidArgument("headroom is " + std::to_string(options.headroom.count) + " bytes; it must not be negative");
  }
  if (options.order.empty()) { throw InvalidArgument("order is empty; it needs at least one step, such as train"); }
}

void check_preserving(bool is_callers_own_step, bool preserve_nothing, bool nothing_preserved) {
  if (is_callers_own_step && !preserve_nothing && nothing_preserved) {
    throw InvalidArgument(
        "the step may train a model of yours, and nothing was said of putting it back: call finder.preserve(model) and "
        "finder.preserve(optimizer) first, or finder.preserve_nothing() if it works on state of its own");
  }
  if (preserve_nothing && !nothing_preserved) {
    throw InvalidArgument("both preserve(…) and preserve_nothing() were called; one of them is a mistake");
  }
}

void check_order(FinderOptions const& options, bool step_reads_trial) {
  bool const evaluates =
      std::find(options.order.begin(), options.order.end(), StepMode::evaluate) != options.order.end();
  if (evaluates && !step_reads_trial) {
    throw InvalidArgument(
        "the order has an evaluation, but the step takes a batch size only and cannot know when to evaluate: take "
        "`maxbatch::Trial& trial` and ask `trial.mode()`");
  }
}

void check_image_options(InputSizeOptions const& options, bool step_reads_trial) {
  require_at_least_one(options.batch_size, "batch_size");
  require_at_least_one(options.stride, "stride");
  if (options.minimum) { require_at_least_one(*options.minimum, "minimum (of the shorter side)"); }
  if (options.maximum) { require_at_least_one(*options.maximum, "maximum (of the shorter side)"); }
  constexpr double kLongest = 1000;
  if (!(options.aspect_ratio >= 1 && options.aspect_ratio <= kLongest)) {
    throw InvalidArgument("aspect_ratio is " + std::to_string(options.aspect_ratio) +
                          "; it is the longer side over the shorter, from 1 to 1000");
  }
  if (!step_reads_trial) {
    throw InvalidArgument(
        "the step takes a batch size only and cannot know the image size: take `maxbatch::Trial& trial` and ask "
        "`trial.image_size()`");
  }
}

void check_residence(std::vector<StateGuard::NamedTensor> const& tensors, c10::Device device) {
  for (auto const& named : tensors) {
    auto const lives_on = named.tensor.device();
    bool const same = lives_on.type() == device.type() &&
                      (!device.has_index() || !lives_on.has_index() || lives_on.index() == device.index());
    if (!same) {
      throw InvalidArgument(named.name + " lives on " + lives_on.str() + ", but the finder measures " + device.str() +
                            ": move the model there first, or make the finder for " + lives_on.str());
    }
  }
}

void check_covered(std::vector<StateGuard::NamedTensor> const& changed,
                   std::vector<StateGuard::NamedTensor> const& kept) {
  std::set<void const*> tensors;
  for (auto const& named : kept) { tensors.insert(named.tensor.unsafeGetTensorImpl()); }
  for (auto const& named : changed) {
    if (tensors.count(named.tensor.unsafeGetTensorImpl()) == 0) {
      throw InvalidArgument(named.name +
                            " would be trained and not put back: call finder.preserve(model) for the model that the "
                            "optimizer updates, beside preserve(optimizer)");
    }
  }
}

std::int64_t longer_side_of(std::int64_t shorter, InputSizeOptions const& options) {
  // The bias keeps 800 * 1.6625 = 1330 at 1330 where the product is a hair above it.
  auto const exact = static_cast<double>(shorter) * options.aspect_ratio;
  auto const strides = std::ceil(exact / static_cast<double>(options.stride) - 1e-9);
  return std::max(shorter, static_cast<std::int64_t>(strides) * options.stride);
}

}  // namespace maxbatch::detail
