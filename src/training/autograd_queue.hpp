#pragma once

#include <c10/core/Device.h>

namespace maxbatch::detail {

/// Frees the gradients that a failed backward pass left in the calling thread's queue of autograd.
///
/// When a node throws, autograd leaves the nodes that were ready to run in the thread's queue, each with its incoming
/// gradients. Later backward passes do not reach them: the queue hands out the youngest nodes first, and a pass ends when
/// its own nodes are done (LibTorch 2.11, torch/csrc/autograd/engine.cpp; see pytorch#82218). A node that claims to be
/// older than any other comes out last, after the left ones, which the engine drops since their pass is gone.
void drain_autograd_queue();

/// Waits until autograd's thread of a device has dropped what a failed backward pass left with it: the caller has the
/// exception before that thread lets go of the failing node's gradients. Allocates nothing there.
void wait_for_autograd_thread(c10::Device device);

}  // namespace maxbatch::detail
