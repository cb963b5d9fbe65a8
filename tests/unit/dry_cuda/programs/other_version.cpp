// Stands for a library of another version: called libcudart.so.12, or a libtorch_cpu.so that says it is 2.9.
#include <cstdint>

extern "C" __attribute__((visibility("default"))) std::uint64_t aoti_torch_abi_version() {
  return std::uint64_t{2} << 56 | std::uint64_t{9} << 48;
}
