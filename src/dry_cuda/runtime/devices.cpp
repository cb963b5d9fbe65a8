#include "capture.hpp"
#include "current_device.hpp"
#include "dry_cuda/activation/environment.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/card.hpp"
#include "dry_cuda/report/report_page.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>

#include <pthread.h>

namespace maxbatch::dry {
namespace {

thread_local int device_of_thread = 0;

std::atomic<bool> forked_with_context{false};

void after_fork_in_child() {
  if (Card::any()) { forked_with_context = true; }
}

bool is_named() {
  static bool const named = [] {
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
    return names_a_card(environment());
  }();
  return named;
}

bool is_device(int device) { return device >= 0 && device < environment().devices; }

}  // namespace

int current_device() noexcept { return device_of_thread; }

cudaError_t ready() {
  if (!is_named()) { return cudaErrorNoDevice; }
  return forked_with_context.load(std::memory_order_relaxed) ? cudaErrorInitializationError : cudaSuccess;
}

}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) { return finish(cudaErrorInvalidValue); }
  auto const status = ready();
  *count = status == cudaSuccess ? environment().devices : 0;
  // Also the first that most programs ask: from here on the launcher knows that they did.
  if (status == cudaSuccess) { static_cast<void>(process_record()); }
  return finish(status);
}

MAXBATCH_DRY_ENTRY cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) { return finish(cudaErrorInvalidValue); }
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  *device = device_of_thread;
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaSetDevice(int device) {
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  if (!is_device(device)) { return finish(cudaErrorInvalidDevice); }
  device_of_thread = device;
  Card::at(device);  // since CUDA 12 this makes the context
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  if (!is_device(device)) { return finish(cudaErrorInvalidDevice); }
  Card::at(device);
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaSetDeviceFlags(unsigned) { return finish(ready()); }
MAXBATCH_DRY_ENTRY cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = cudaDeviceScheduleAuto;
  return finish(ready());
}

MAXBATCH_DRY_ENTRY cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION / 10 * 10;
  return cudaSuccess;
}
MAXBATCH_DRY_ENTRY cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceSynchronize() {
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  return finish(check_device_wait(current_device()));
}

MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) { return finish(cudaErrorInvalidDevice); }
  *can_access = device == peer ? 0 : 1;
  return finish(ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags != 0) { return finish(cudaErrorInvalidValue); }
  return finish(!is_device(peer) || peer == device_of_thread ? cudaErrorInvalidDevice : ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return finish(is_device(peer) ? ready() : cudaErrorInvalidDevice);
}

MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (text == nullptr || length < 1) { return finish(cudaErrorInvalidValue); }
  if (!is_device(device)) { return finish(cudaErrorInvalidDevice); }
  std::snprintf(text, static_cast<std::size_t>(length), "0000:00:%02X.0", static_cast<unsigned>(device + 6));
  return finish(ready());
}

MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) { *least = 0; }
  if (greatest != nullptr) { *greatest = -5; }
  return finish(ready());
}
