#include "device_selection.hpp"

#include "usage_error.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/device/cuda_device.hpp>
#include <maxbatch/impl/nearest_name.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>

#include <algorithm>
#include <cctype>
#include <limits>

namespace maxbatch::cli {
namespace {

/// The number of "cuda" or "cuda:N"; none for anything else.
std::optional<c10::DeviceIndex> cuda_index(std::string const& name) {
  if (name == "cuda") { return c10::DeviceIndex{0}; }
  auto const digits = name.rfind("cuda:", 0) == 0 ? name.substr(5) : "";
  if (digits.empty() || digits.size() > 3 ||
      !std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
    return std::nullopt;
  }
  auto const index = std::stoi(digits);
  if (index > std::numeric_limits<c10::DeviceIndex>::max()) { return std::nullopt; }
  return static_cast<c10::DeviceIndex>(index);
}

}  // namespace

DeviceChoice read_device(std::string const& name) {
  DeviceChoice choice;
  if (name == "cpu") { return choice; }
  if (auto const index = cuda_index(name)) {
    choice.kind = DeviceChoice::Kind::cuda;
    choice.index = *index;
    return choice;
  }
  try {
    choice.card = CardCatalogue::built_in().find(name).name;
  } catch (UnknownCard const& error) {
    if (auto const nearest = detail::nearest_name(name, {"cpu", "cuda:0"})) {
      throw UsageError("--device '" + name + "' is not known; did you mean '" + *nearest + "'?");
    }
    throw UsageError(
        "--device takes cpu, cuda:N for a card of this machine, or a card's name for one that is not here: " +
        std::string(error.what()));
  }
  choice.kind = DeviceChoice::Kind::dry_card;
  return choice;
}

void check_device(std::string const& name) {
  if (read_device(name).kind == DeviceChoice::Kind::cuda) { make_device(name, std::nullopt); }
}

std::shared_ptr<MemoryDevice> make_device(std::string const& name, std::optional<Bytes> budget) {
  auto const choice = read_device(name);
  if (choice.kind == DeviceChoice::Kind::dry_card) {
    throw UsageError("--device '" + name + "' is no device of this process");
  }
  if (choice.kind == DeviceChoice::Kind::cuda) {
    try {
      return cuda_device(choice.index, budget);
    } catch (DeviceUnavailable const& error) {
      throw UsageError("--device '" + name + "': " + error.what() +
                       ". A card's name in its place, such as rtx-4090, asks for one that is not here");
    }
  }
  auto device = budgeted_cpu_device(budget);
  if (!budget) { device->set_budget(Bytes{device->describe().total.count / 2}); }
  return device;
}

}  // namespace maxbatch::cli
