// NVRTC: compiling succeeds, and gives a kernel that is never run. LibTorch compiles some elementwise operators so.
#include "dry_cuda/entry_point.hpp"

#include <cstddef>
#include <cstring>
#include <set>
#include <string>

#include <nvrtc.h>

struct _nvrtcProgram {
  std::set<std::string> names;  // stable addresses: nvrtcGetLoweredName lends them
};

namespace {

// Whatever loads this never looks into it: driver/kernels.cpp takes any image.
constexpr char kImage[] = "dry";
constexpr char kNoLog[] = "";

nvrtcResult give_size(std::size_t* size, std::size_t value) {
  if (size == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *size = value;
  return NVRTC_SUCCESS;
}

template <std::size_t size>
nvrtcResult give(char* where, char const (&text)[size]) {
  if (where == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::memcpy(where, text, size);
  return NVRTC_SUCCESS;
}

}  // namespace

MAXBATCH_DRY_ENTRY char const* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC does not do this on a dry card";
}
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *major = 13;  // the headers that this library is built with: dry_cuda/CMakeLists.txt takes no others
  *minor = 0;
  return NVRTC_SUCCESS;
}
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, char const* source, char const*, int,
                                                  char const* const*, char const* const*) {
  if (program == nullptr || source == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *program = new _nvrtcProgram;
  return NVRTC_SUCCESS;
}
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, char const* const*) { return NVRTC_SUCCESS; }
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, char const* name) {
  if (program == nullptr || name == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  program->names.insert(name);
  return NVRTC_SUCCESS;
}
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, char const* name, char const** lowered) {
  if (program == nullptr || name == nullptr || lowered == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  auto const found = program->names.find(name);
  if (found == program->names.end()) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
  *lowered = found->c_str();
  return NVRTC_SUCCESS;
}
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcGetPTXSize(nvrtcProgram, std::size_t* size) {
  return give_size(size, sizeof kImage);
}
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcGetPTX(nvrtcProgram, char* image) { return give(image, kImage); }
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, std::size_t* size) {
  return give_size(size, sizeof kImage);
}
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char* image) { return give(image, kImage); }
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, std::size_t* size) {
  return give_size(size, sizeof kNoLog);
}
MAXBATCH_DRY_ENTRY nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char* log) { return give(log, kNoLog); }
