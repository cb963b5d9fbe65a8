#include <cstdint>
#include <cstdio>

extern "C" std::uint64_t aoti_torch_abi_version();

int main() {
  std::printf("version %llx\n", static_cast<unsigned long long>(aoti_torch_abi_version()));
  return 0;
}
