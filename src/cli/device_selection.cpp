#include "device_selection.hpp"

#include "models/nearest_name.hpp"
#include "usage_error.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>

#include <algorithm>
#include <cctype>

namespace maxbatch::cli {
namespace {

bool names_cuda(std::string const& name) {
  if (name == "cuda") { return true; }
  return name.rfind("cuda:", 0) == 0 && name.size() > 5 &&
         std::all_of(name.begin() + 5, name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

void check_device(std::string const& name) {
  if (name == "cpu") { return; }
  if (names_cuda(name)) {
    throw UsageError("--device '" + name +
                     "': this version answers for the cpu only, and for cuda devices in a later one; use --device cpu");
  }
  if (auto const nearest = nearest_name(name, {"cpu", "cuda:0"})) {
    throw UsageError("--device '" + name + "' is not known; did you mean '" + *nearest + "'?");
  }
  throw UsageError("--device '" + name +
                   "': this version answers for the cpu only, and for cards by name in a later one; use --device cpu");
}

std::shared_ptr<MemoryDevice> make_device(std::string const& name, std::optional<Bytes> budget) {
  check_device(name);
  auto device = budgeted_cpu_device(budget);
  if (!budget) { device->set_budget(Bytes{device->describe().total.count / 2}); }
  return device;
}

}  // namespace maxbatch::cli
