#include "finder_checks.hpp"
#include "search_session.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace maxbatch {
namespace {

detail::TrialPlan plan_of(FinderOptions const& options) {
  detail::TrialPlan plan;
  plan.steps = options.steps;
  plan.order = options.order;
  plan.allow_swallowed_out_of_memory = options.allow_swallowed_out_of_memory;
  return plan;
}

}  // namespace

MaxBatchFinder::MaxBatchFinder(std::shared_ptr<MemoryDevice> device, FinderOptions options)
    : device_(std::move(device)), options_(std::move(options)) {
  if (!device_) { throw InvalidArgument("a finder needs a device, such as maxbatch::budgeted_cpu_device(budget)"); }
  detail::check_options(options_);
}

MaxBatchFinder::StepSource MaxBatchFinder::source_of_model(ModelFactory const& model, Recipe const& recipe) {
  if (!model.make) { throw InvalidArgument("the model '" + model.name + "' has no `make`"); }
  StepSource source;
  source.prepare_step = [&model, &recipe](c10::Device device) { return model.make(device, recipe); };
  source.image_size = recipe.image_size ? recipe.image_size : model.image_size;
  return source;
}

FinderResult MaxBatchFinder::find(ModelFactory const& model, Recipe const& recipe) {
  return find_largest(source_of_model(model, recipe));
}

InputSizeResult MaxBatchFinder::find_input_size(ModelFactory const& model, Recipe const& recipe,
                                                InputSizeOptions const& options) {
  return find_largest_image(source_of_model(model, recipe), options);
}

FinderResult MaxBatchFinder::find_largest(StepSource const& source) {
  detail::check_options(options_);
  detail::check_preserving(static_cast<bool>(source.own_step), preserve_nothing_, preserved_.empty());
  detail::check_order(options_, source.reads_trial);
  auto plan = plan_of(options_);
  plan.image_size = source.image_size;
  detail::SearchSession session(*device_, options_, plan, preserved_,
                                {source.own_step, source.make_step, source.prepare_step});
  return session.run(driver_, options_.search, predictor_.get(), observer_.get(), /*exponent=*/1.0);
}

InputSizeResult MaxBatchFinder::find_largest_image(StepSource const& source, InputSizeOptions const& options) {
  detail::check_options(options_);
  detail::check_preserving(static_cast<bool>(source.own_step), preserve_nothing_, preserved_.empty());
  detail::check_order(options_, source.reads_trial);
  detail::check_image_options(options, source.reads_trial);
  auto const longer_side = [&options](std::int64_t shorter) { return detail::longer_side_of(shorter, options); };
  bool const turns = options.both_orientations && longer_side(options.stride) != options.stride;

  auto plan = plan_of(options_);
  plan.batch_size = options.batch_size;
  plan.image_size_of = [=](std::int64_t shorter, std::int64_t step_index) {
    ImageSize const landscape{shorter, longer_side(shorter)};
    return turns && step_index % 2 == 1 ? ImageSize{landscape.width, landscape.height} : landscape;
  };
  if (turns) { plan.steps = std::max<std::int64_t>(plan.steps, 4); }  // each orientation with the state resident

  auto search = options_.search;
  search.minimum = options.minimum.value_or(options.stride);
  search.maximum = options.maximum;
  search.multiple_of = options.stride;
  search.divisor_of.reset();
  search.enough.reset();
  detail::SearchSession session(*device_, options_, plan, preserved_,
                                {source.own_step, source.make_step, source.prepare_step});
  InputSizeResult result;
  result.finder = session.run(driver_, search, predictor_.get(), observer_.get(), /*exponent=*/2.0);
  auto const landscape_of = [&](std::optional<std::int64_t> shorter) {
    return shorter ? std::optional(ImageSize{*shorter, longer_side(*shorter)}) : std::nullopt;
  };
  result.largest = landscape_of(result.finder.search.batch_size);
  result.next = landscape_of(result.finder.search.next_batch_size);
  result.batch_size = options.batch_size;
  return result;
}

}  // namespace maxbatch
