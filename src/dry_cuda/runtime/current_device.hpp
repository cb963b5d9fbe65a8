#pragma once

namespace maxbatch::dry {

/// The device that the calling thread has set; 0 to begin with.
int current_device() noexcept;

}  // namespace maxbatch::dry
