#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "allocation_program.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/allocation_program.hpp>"
#endif

#include <maxbatch/impl/simulation/allocation_program_inl.hpp>
