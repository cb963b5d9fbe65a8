#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "replay_preparation.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/replay_preparation.hpp>"
#endif

#include <maxbatch/impl/simulation/replay_preparation_inl.hpp>
