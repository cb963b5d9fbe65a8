#include "dry_cuda/profiling/card_reading.hpp"

#include "dry_cuda/profiling/loaded_cuda.hpp"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace maxbatch::dry {
namespace {

constexpr std::int64_t kMib = std::int64_t{1} << 20;

void check(cudaError_t status, char const* what) {
  if (status == cudaSuccess) { return; }
  throw std::runtime_error(std::string(what) + ": " + MAXBATCH_LOADED(cudaGetErrorString)(status));
}

int attribute(cudaDeviceAttr name, int device) {
  int value = 0;
  check(MAXBATCH_LOADED(cudaDeviceGetAttribute)(&value, name, device), "an attribute of the card");
  return value;
}

/// Under the names that cuda_runtime_api.h gives its functions by macro.
cudaError_t properties_of(int device, cudaDeviceProp& properties) {
  auto* const ask = MAXBATCH_LOADED(cudaGetDeviceProperties);
  return ask == nullptr ? cudaErrorNotSupported : ask(&properties, device);
}

void find_device(int device) {
  auto* const count_devices = MAXBATCH_LOADED(cudaGetDeviceCount);
  if (count_devices == nullptr) { throw std::runtime_error("this LibTorch was built without CUDA"); }
  int count = 0;
  auto const status = count_devices(&count);
  if (status != cudaSuccess || count == 0) {
    throw std::runtime_error(
        std::string("there is no card here (") +
        (status == cudaSuccess ? "the driver knows none" : MAXBATCH_LOADED(cudaGetErrorString)(status)) + ")");
  }
  if (device >= count) {
    throw std::runtime_error("there is no device " + std::to_string(device) + "; there are " + std::to_string(count));
  }
}

CardProfile properties_profile(int device) {
  cudaDeviceProp properties{};
  check(properties_of(device, properties), "the properties of the card");
  CardProfile card;
  card.name = properties.name;
  card.major = properties.major;
  card.minor = properties.minor;
  card.multiprocessors = properties.multiProcessorCount;
  card.threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
  card.blocks_per_multiprocessor = properties.maxBlocksPerMultiProcessor;
  card.registers_per_multiprocessor = properties.regsPerMultiprocessor;
  card.shared_bytes_per_multiprocessor = static_cast<std::int64_t>(properties.sharedMemPerMultiprocessor);
  card.shared_bytes_per_block_optin = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  card.l2_bytes = properties.l2CacheSize;
  card.memory_bus_bits = properties.memoryBusWidth;
  card.clock_khz = attribute(cudaDevAttrClockRate, device);
  card.memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, device);
  card.ecc = properties.ECCEnabled != 0;
  card.total_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  return card;
}

std::int64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(MAXBATCH_LOADED(cudaMemGetInfo)(&free, &total), "the free memory of the card");
  return static_cast<std::int64_t>(free);
}

/// Device memory, given back with it.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::int64_t bytes) {
    check(MAXBATCH_LOADED(cudaMalloc)(&pointer_, static_cast<std::size_t>(bytes)), "memory of the card");
  }
  ~DeviceMemory() { MAXBATCH_LOADED(cudaFree)(pointer_); }
  DeviceMemory(DeviceMemory const&) = delete;
  DeviceMemory& operator=(DeviceMemory const&) = delete;
  [[nodiscard]] float* floats() const { return static_cast<float*>(pointer_); }
  [[nodiscard]] std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(pointer_); }

 private:
  void* pointer_ = nullptr;
};

/// How far `act` makes the free memory fall for good.
template <typename Act>
std::int64_t taken_by(Act act) {
  auto const before = free_bytes();
  act();
  return before - free_bytes();
}

/// What the driver takes for a handle of cuBLAS: the second one, since with the first comes what all libraries share.
void watch_cublas(CardReading& reading) {
  auto* const create = MAXBATCH_LOADED(cublasCreate_v2);
  cublasHandle_t first = nullptr;
  cublasHandle_t second = nullptr;
  auto status = create == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : create(&first);
  if (status != CUBLAS_STATUS_SUCCESS) {
    reading.remarks.push_back("cuBLAS does not start: what its handle takes is the H200's");
    return;
  }
  auto const bytes = taken_by([&] { status = create(&second); });
  MAXBATCH_LOADED(cublasDestroy_v2)(first);
  if (status != CUBLAS_STATUS_SUCCESS) { throw std::runtime_error("cuBLAS gives no second handle on this card"); }
  MAXBATCH_LOADED(cublasDestroy_v2)(second);
  reading.profile.cublas_handle_bytes = bytes;
}

/// How local memory grows at the first kernel whose stack nobody knows. Code has its slab by then.
void watch_local_memory(CardReading& reading, AssertingKernel const& asserting_kernel) {
  auto const launch = asserting_kernel();
  constexpr std::int64_t kSlab = 2 * kMib;
  auto const taken = taken_by([&] { launch(); }) - kSlab;
  reading.profile.grown_local_memory_bytes = reading.profile.local_memory_bytes + std::max<std::int64_t>(0, taken);
}

/// The rules of placement that every dry card follows; a card that does otherwise is worth a remark.
void watch_placement(CardReading& reading) {
  constexpr std::int64_t kGranule = 2 * kMib;
  constexpr std::int64_t kReservation = 32 * kMib;
  std::optional<DeviceMemory> smallest_one;
  auto const smallest = taken_by([&] { smallest_one.emplace(1); });
  if (smallest != kGranule) {
    reading.remarks.push_back("an allocation of 1 byte took " + std::to_string(smallest) +
                              " bytes from the driver, and a dry card takes 2 MiB");
  }
  DeviceMemory const large(4 * kReservation);
  if (large.address() % static_cast<std::uintptr_t>(kReservation) != 0) {
    reading.remarks.push_back("an allocation of 128 MiB does not lie on a multiple of 32 MiB, as a dry card's does");
  }
}

}  // namespace

CardReading read_card(int device, AssertingKernel const& asserting_kernel) {
  find_device(device);
  check(MAXBATCH_LOADED(cudaSetDevice)(device), "the card cannot be used");
  CardReading reading;
  check(MAXBATCH_LOADED(cudaDriverGetVersion)(&reading.driver_version), "the driver's version");
  reading.profile = properties_profile(device);
  auto& profile = reading.profile;
  profile.context_bytes = profile.total_bytes - free_bytes();
  // What of that is local memory cannot be asked, so it is scaled from the H200's; only its growth is measured.
  profile.local_memory_bytes = scaled_local_memory_bytes(profile);
  watch_placement(reading);
  watch_local_memory(reading, asserting_kernel);
  watch_cublas(reading);
  if (profile.context_bytes > 4096 * kMib) {
    reading.remarks.push_back("the context seems to take " + std::to_string(profile.context_bytes / kMib) +
                              " MiB, so somebody else probably uses the card; profile it when nobody does");
  }
  return reading;
}

std::string card_reading_text(CardReading const& reading) {
  std::ostringstream text;
  text << "# " << reading.profile.name << ", driver " << reading.driver_version
       << ": read from the card by maxbatch profile-gpu.\n"
          "# Properties and total_bytes are what the runtime says; context_bytes is what was taken when the process "
          "had a\n"
          "# context; cublas_handle_bytes and the growth of local memory were measured as they happened. "
          "local_memory_bytes\n"
          "# cannot be asked: it is the H200's, scaled by the threads that can be resident.\n";
  for (auto const& remark : reading.remarks) { text << "# Remark: " << remark << ".\n"; }
  text << card_profile_text(reading.profile);
  return text.str();
}

}  // namespace maxbatch::dry
