#pragma once

#include <cuda_runtime_api.h>

namespace maxbatch::test {

/// Decides when CUDA's events count as done: cudaEventRecord and cudaEventQuery of this program are ours, in front of the
/// runtime's, so that what depends on a card's timing elsewhere is decided here, on a real card as on a dry one.
/// While events are held, one is done once its stream was opened after it was recorded. Otherwise each is waited for.
void hold_events(bool hold);
void open_stream(cudaStream_t stream);

}  // namespace maxbatch::test
