#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "trace_scaling.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/trace_scaling.hpp>"
#endif

#include <maxbatch/impl/simulation/scaled_program_builder.hpp>
#include <maxbatch/impl/simulation/trace_scaling_inl.hpp>
