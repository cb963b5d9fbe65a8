#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/device/memory_device.hpp>

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <string>

namespace maxbatch::cli {

/// Where a search runs: in this process on the cpu or on a card of this machine, or in a child process on a card that is
/// not there.
struct DeviceChoice {
  enum class Kind { cpu, cuda, dry_card };
  Kind kind = Kind::cpu;
  c10::DeviceIndex index = 0;  ///< of a card of this machine
  std::string card;            ///< of a dry one: its name in the catalogue
};

/// "cpu", "cuda", "cuda:1", or a card as `maxbatch cards` lists it.  Throws: UsageError that says what there is.
DeviceChoice read_device(std::string const& name);

/// Throws: UsageError as `read_device`, and when this build or machine has no such device.
void check_device(std::string const& name);

/// A device of this process under a budget. None: what the device has; on the cpu half of it, since the machine's memory
/// also holds the program, its libraries and their scratch, none of which the budget counts.
/// Throws: UsageError as `check_device`.
std::shared_ptr<MemoryDevice> make_device(std::string const& name, std::optional<Bytes> budget);

}  // namespace maxbatch::cli
