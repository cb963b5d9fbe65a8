#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "allocator_settings.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/allocator_settings.hpp>"
#endif

#include <maxbatch/impl/simulation/allocator_settings_inl.hpp>
