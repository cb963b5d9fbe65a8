#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "caching_allocator_simulator.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/caching_allocator_simulator.hpp>"
#endif

#include <maxbatch/impl/simulation/caching_allocator_simulator_inl.hpp>
