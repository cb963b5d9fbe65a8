#include <maxbatch/device/memory_device.hpp>

namespace maxbatch {

std::string_view to_string(DeviceEvidence evidence) {
  switch (evidence) {
    case DeviceEvidence::measured: return "measured";
    case DeviceEvidence::dry: return "dry";
    case DeviceEvidence::cpu: return "cpu";
  }
  return "unknown";
}

}  // namespace maxbatch
