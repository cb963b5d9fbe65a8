#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "repeated_steps.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/repeated_steps.hpp>"
#endif

#include <maxbatch/impl/simulation/repeated_steps_inl.hpp>
