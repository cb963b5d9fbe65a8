#pragma once

#include <maxbatch/training/finder_result.hpp>
#include <maxbatch/training/recipe.hpp>
#include <maxbatch/training/speed.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace maxbatch {

/// What a result is about, as far as the finder cannot know it.
struct ReportSubject {
  std::string model;                            ///< empty: a program of somebody's
  std::string command;                          ///< of that program, with `{}` where the number goes
  std::string varied;                           ///< what the number is to it: "--batch-size"; "{}" where it has no name
  std::string card;                             ///< by its name in the catalogue, of one that is not here; else empty
  Recipe recipe;                                ///< its image size none: the model takes no images
  std::optional<std::int64_t> effective_batch;  ///< wanted: the report says how many micro-batches make it whole
};

/// One row of a table: a result, or why there is none.
struct ReportEntry {
  ReportSubject subject;
  FinderResult result;
  std::optional<std::string> error;                 ///< the step failed for another reason than memory
  std::optional<SpeedResult> speed = std::nullopt;  ///< up to the answer; none: nobody measured it
};

}  // namespace maxbatch
