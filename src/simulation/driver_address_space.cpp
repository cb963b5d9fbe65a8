#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "driver_address_space.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/driver_address_space.hpp>"
#endif

#include <maxbatch/impl/simulation/driver_address_space_inl.hpp>
