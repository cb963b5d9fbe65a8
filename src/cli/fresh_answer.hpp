#pragma once

#include "command.hpp"
#include "search_arguments.hpp"
#include <maxbatch/bytes.hpp>
#include <maxbatch/training/finder_result.hpp>

#include <optional>

namespace maxbatch::cli {

/// Whether what ran in a process before may have decided the answer: where memory runs out inside a convolution, cuDNN is asked
/// for a plan with a smaller workspace, and LibTorch remembers that plan for as long as the process lives.
bool history_may_have_decided(FinderResult const& found);

/// `found`, or where its history may have decided it, the same search in a process for each size, as training begins; it
/// starts at the answer that was found. Says so, and whether the answer is another. Nothing of that when the user said
/// whether he wants fresh processes, when the search was stopped, or on a card of this machine without a budget, where this
/// process itself holds memory that the others would lack.
FinderResult fresh_answer(ModelFactory const& model, SearchArguments const& arguments, std::optional<Bytes> budget,
                          FinderResult found, Surroundings const& surroundings);

}  // namespace maxbatch::cli
