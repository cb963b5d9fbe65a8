#pragma once

#include <cstddef>

namespace maxbatch::dry {

/// From now on every operator of every thread is watched: what it asks of data is decided, and what is known of small
/// tensors is kept up to date.
void start_observer();

/// The two hooks of the dry card, on the thread that the copy or the kernel is on.
bool answer_read_of_this_thread(void* host, std::size_t bytes);
void note_written_by_this_thread();

}  // namespace maxbatch::dry
