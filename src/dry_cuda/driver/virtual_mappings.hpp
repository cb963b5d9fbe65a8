#pragma once

#include "dry_cuda/memory/address.hpp"

namespace maxbatch::dry {

/// What virtual memory management (driver/virtual_memory.cpp) has mapped where.
bool is_mapped(Address address);
/// 0 where nothing is mapped.
int device_of_mapping(Address address);

}  // namespace maxbatch::dry
