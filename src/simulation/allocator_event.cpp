#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "allocator_event.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/allocator_event.hpp>"
#endif

#include <maxbatch/impl/simulation/allocator_event_inl.hpp>
