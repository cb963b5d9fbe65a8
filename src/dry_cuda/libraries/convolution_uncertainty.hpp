#pragma once

#include "dry_cuda/report/memory_sources.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace maxbatch::dry {

/// A workspace that cuDNN planned without a driver, where no table knows the card's, with what the card may take instead.
/// `questions`: of which any may be the one, as CudnnPlanning gives them.
ScratchAnswer planned_workspace(std::vector<std::string> const& questions, std::int64_t planned_bytes);

/// The same for one that a table gave for other batch sizes (ConvolutionTable::find_near). Where cuDNN plans the same without a
/// driver, it is hardly ever wrong.
ScratchAnswer near_workspace(std::vector<std::string> const& questions, std::int64_t near_bytes,
                             std::int64_t planned_bytes);

}  // namespace maxbatch::dry
