#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "trace_alignment.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/trace_alignment.hpp>"
#endif

#include <maxbatch/impl/simulation/trace_alignment_inl.hpp>
