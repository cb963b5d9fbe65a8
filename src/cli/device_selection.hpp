#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/device/memory_device.hpp>

#include <memory>
#include <optional>
#include <string>

namespace maxbatch::cli {

/// Whether this build can answer for a device of that name.  Throws: UsageError that says what it can.
void check_device(std::string const& name);

/// The device of that name under a budget. None: what the device has; on the cpu half of it, since the machine's memory
/// also holds the program, its libraries and their scratch, none of which the budget counts.
/// Throws: UsageError as `check_device`.
std::shared_ptr<MemoryDevice> make_device(std::string const& name, std::optional<Bytes> budget);

}  // namespace maxbatch::cli
