#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "device_address_space.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/device_address_space.hpp>"
#endif

#include <maxbatch/impl/simulation/device_address_space_inl.hpp>
