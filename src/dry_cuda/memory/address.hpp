#pragma once

#include <maxbatch/simulation/device_address.hpp>

namespace maxbatch::dry {

using Address = DeviceAddress;
using AddressRange = DeviceAddressRange;

}  // namespace maxbatch::dry
