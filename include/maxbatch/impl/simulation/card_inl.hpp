#pragma once

#include <maxbatch/simulation/card.hpp>

#include <sstream>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE std::string_view to_string(FigureEvidence evidence) {
  switch (evidence) {
    case FigureEvidence::measured: return "measured";
    case FigureEvidence::published: return "published";
    case FigureEvidence::estimated: break;
  }
  return "estimated";
}

MAXBATCH_INLINE std::string to_string(ComputeCapability capability) {
  return std::to_string(capability.major) + "." + std::to_string(capability.minor);
}

MAXBATCH_INLINE std::vector<CardFigure> Card::figures() const {
  auto const& fixed = architecture;
  return {
      {"compute_capability", architecture.capability.major * 10 + architecture.capability.minor, hardware_source},
      {"multiprocessors", multiprocessors, hardware_source},
      {"l2_cache_bytes", l2_cache.count, hardware_source},
      {"memory_bus_bits", memory_bus_bits, hardware_source},
      {"clock_khz", clock_khz, hardware_source},
      {"memory_clock_khz", memory_clock_khz, hardware_source},
      {"marketed_memory_bytes", marketed_memory.count, hardware_source},
      {"total_memory_bytes", total_memory.count, total_memory_source},
      {"context_fixed_bytes", context.fixed.count, context.source},
      {"context_local_memory_bytes", context.local_memory.count, context.source},
      {"context_grown_local_memory_bytes", context.grown_local_memory.count, context.source},
      {"max_threads_per_multiprocessor", fixed.max_threads_per_multiprocessor, fixed.source},
      {"max_blocks_per_multiprocessor", fixed.max_blocks_per_multiprocessor, fixed.source},
      {"max_threads_per_block", fixed.max_threads_per_block, fixed.source},
      {"registers_per_multiprocessor", fixed.registers_per_multiprocessor, fixed.source},
      {"registers_per_block", fixed.registers_per_block, fixed.source},
      {"shared_memory_per_multiprocessor_bytes", fixed.shared_memory_per_multiprocessor.count, fixed.source},
      {"shared_memory_per_block_bytes", fixed.shared_memory_per_block.count, fixed.source},
      {"shared_memory_per_block_optin_bytes", fixed.shared_memory_per_block_optin.count, fixed.source},
      {"reserved_shared_memory_per_block_bytes", fixed.reserved_shared_memory_per_block.count, fixed.source},
      {"warp_size", fixed.warp_size, fixed.source},
  };
}

MAXBATCH_INLINE std::string card_profile_text(Card const& card) {
  std::ostringstream text;
  text << "# " << card.name << "; total_bytes is " << to_string(card.total_memory_source.evidence) << ": "
       << card.total_memory_source.text << '\n';
  text << "name = " << card.device_name << '\n';
  text << "major = " << card.architecture.capability.major << '\n';
  text << "minor = " << card.architecture.capability.minor << '\n';
  text << "multiprocessors = " << card.multiprocessors << '\n';
  text << "threads_per_multiprocessor = " << card.architecture.max_threads_per_multiprocessor << '\n';
  text << "blocks_per_multiprocessor = " << card.architecture.max_blocks_per_multiprocessor << '\n';
  text << "registers_per_multiprocessor = " << card.architecture.registers_per_multiprocessor << '\n';
  text << "shared_bytes_per_multiprocessor = " << card.architecture.shared_memory_per_multiprocessor.count << '\n';
  text << "shared_bytes_per_block_optin = " << card.architecture.shared_memory_per_block_optin.count << '\n';
  text << "l2_bytes = " << card.l2_cache.count << '\n';
  text << "memory_bus_bits = " << card.memory_bus_bits << '\n';
  text << "clock_khz = " << card.clock_khz << '\n';
  text << "memory_clock_khz = " << card.memory_clock_khz << '\n';
  text << "ecc = " << (card.ecc ? 1 : 0) << '\n';
  text << "total_bytes = " << card.total_memory.count << '\n';
  return text.str();
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
