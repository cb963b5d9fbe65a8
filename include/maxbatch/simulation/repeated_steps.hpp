#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocation_program.hpp>

#include <cstdint>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// The program up to the end of its last step, and that step `count` times more. What a step lets go of that the step
/// before made, its copy lets go of in the copy before.
///
/// The program itself where its marks tell fewer than two steps, or where the last two do not make the same requests.
AllocationProgram with_further_steps(AllocationProgram const& program, std::int64_t count);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/repeated_steps_inl.hpp>
#endif
