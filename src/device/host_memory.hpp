#pragma once

#include <maxbatch/bytes.hpp>

#include <filesystem>

namespace maxbatch::detail {

/// What this process may use: the machine's memory, or the limit of its control group or one above, where that is less.
/// Control groups of version 1 and 2. `root` is where /proc and /sys are looked for.
Bytes host_memory(std::filesystem::path const& root = "/");

}  // namespace maxbatch::detail
