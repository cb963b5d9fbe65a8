#pragma once

namespace maxbatch::dry {

/// Remarks on the launcher's page, each once, for libraries of this process that are not the ones that a dry card was checked
/// with: a CUDA runtime of another major version, another LibTorch. Any thread.
void look_at_loaded_libraries();

}  // namespace maxbatch::dry
