#include "host_blocks.hpp"

#include <cstdint>
#include <map>
#include <mutex>

#include <sys/mman.h>

namespace maxbatch::dry {
namespace {

struct Blocks {
  std::mutex mutex;
  std::map<std::uintptr_t, HostBlock> by_begin;
};

Blocks& blocks() {
  static auto* const all = new Blocks;  // calls come until the very end of the process
  return *all;
}

std::uintptr_t number_of(void const* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

std::map<std::uintptr_t, HostBlock>::iterator find_around(std::map<std::uintptr_t, HostBlock>& all,
                                                          std::uintptr_t address) {
  auto after = all.upper_bound(address);
  if (after == all.begin()) { return all.end(); }
  --after;
  return address - after->first < after->second.bytes ? after : all.end();
}

}  // namespace

void* allocate_host_block(HostBlockKind kind, std::size_t bytes, int device) {
  auto* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) { return nullptr; }
  std::lock_guard<std::mutex> const lock(blocks().mutex);
  blocks().by_begin[number_of(memory)] = {kind, device, memory, bytes};
  return memory;
}

bool release_host_block(HostBlockKind kind, void* pointer) {
  std::lock_guard<std::mutex> const lock(blocks().mutex);
  auto const found = blocks().by_begin.find(number_of(pointer));
  if (found == blocks().by_begin.end() || found->second.kind != kind) { return false; }
  munmap(pointer, found->second.bytes);
  blocks().by_begin.erase(found);
  return true;
}

bool register_host_block(void* pointer, std::size_t bytes, int device) {
  std::lock_guard<std::mutex> const lock(blocks().mutex);
  auto& all = blocks().by_begin;
  auto const begin = number_of(pointer);
  auto const next = all.lower_bound(begin);
  if (find_around(all, begin) != all.end() || (next != all.end() && next->first - begin < bytes)) { return false; }
  all[begin] = {HostBlockKind::registered, device, pointer, bytes};
  return true;
}

bool unregister_host_block(void* pointer) {
  std::lock_guard<std::mutex> const lock(blocks().mutex);
  auto const found = blocks().by_begin.find(number_of(pointer));
  if (found == blocks().by_begin.end() || found->second.kind != HostBlockKind::registered) { return false; }
  blocks().by_begin.erase(found);
  return true;
}

std::optional<HostBlock> host_block_around(void const* pointer) {
  std::lock_guard<std::mutex> const lock(blocks().mutex);
  auto const found = find_around(blocks().by_begin, number_of(pointer));
  return found == blocks().by_begin.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace maxbatch::dry
