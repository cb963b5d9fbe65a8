#include "dry_cuda/libraries/cudnn_device_description.hpp"

#include "dry_cuda/libraries/real_library.hpp"

#include <cstdint>
#include <cstdio>
#include <utility>

namespace maxbatch::dry {
namespace {

std::string quoted(std::string const& text) {
  std::string result = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

cudnnBackendDescriptor_t make_device_description() {
  std::string const json = device_description_json(card_profile());
  cudnnBackendDescriptor_t description = nullptr;
  auto status =
      MAXBATCH_DRY_REAL(kCudnn, cudnnBackendCreateDescriptor)(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &description);
  if (status == CUDNN_STATUS_SUCCESS) {
    status = MAXBATCH_DRY_REAL(kCudnn, cudnnBackendSetAttribute)(
        description, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
        static_cast<std::int64_t>(json.size() + 1), json.c_str());
  }
  if (status == CUDNN_STATUS_SUCCESS) status = MAXBATCH_DRY_REAL(kCudnn, cudnnBackendFinalize)(description);
  if (status == CUDNN_STATUS_SUCCESS) return description;
  std::fprintf(stderr, "maxbatch: cuDNN %zu refuses the description of the dry card (status %d): it plans nothing\n",
               MAXBATCH_DRY_REAL(kCudnn, cudnnGetVersion)(), static_cast<int>(status));
  return nullptr;
}

}  // namespace

std::string device_description_json(CardProfile const& card) {
  std::pair<char const*, std::int64_t> const numbers[] = {
      {"regsPerBlock", 65536},
      {"multiProcessorCount", card.multiprocessors},
      {"warpSize", 32},
      {"maxSharedMemoryPerBlock", 49152},
      {"maxSharedMemoryPerBlockOptin", card.shared_bytes_per_block_optin},
      {"reservedSharedMemoryPerBlock", card.major >= 8 ? 1024 : 0},
      {"maxRegistersPerSM", card.registers_per_multiprocessor},
      {"maxCtasPerSM", card.blocks_per_multiprocessor},
      {"maxThreadsPerBlock", 1024},
      {"maxThreadsPerSM", card.threads_per_multiprocessor},
      {"pciDeviceId", 6},
      {"isTccDriver", 0},
      {"supportCoopLaunch", 1},
      {"totalGlobalMem", card.total_bytes},
      {"smClockRateKHz", card.clock_khz},
      {"memClockRateKHz", card.memory_clock_khz},
      {"l2CacheSize", card.l2_bytes},
      {"cudaDeviceId", 0},
      {"deviceVer", card.major * 100 + card.minor * 10},
      {"driverVer", 13000},
  };
  std::string json = R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64])";
  for (auto const& [name, value] : numbers) json += ",\"" + std::string(name) + "\":" + std::to_string(value);
  return json + ",\"deviceName\":" + quoted(card.name) + '}';
}

cudnnBackendDescriptor_t device_description() {
  static cudnnBackendDescriptor_t const description = make_device_description();
  return description;
}

}  // namespace maxbatch::dry
