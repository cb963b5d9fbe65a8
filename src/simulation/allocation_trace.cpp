#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "allocation_trace.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/allocation_trace.hpp>"
#endif

#include <maxbatch/impl/simulation/allocation_trace_inl.hpp>
