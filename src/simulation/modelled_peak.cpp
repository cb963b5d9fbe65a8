#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "modelled_peak.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/modelled_peak.hpp>"
#endif

#include <maxbatch/impl/simulation/modelled_peak_inl.hpp>
