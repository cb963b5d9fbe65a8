#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "replay_program.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/replay_program.hpp>"
#endif

#include <maxbatch/impl/simulation/replay_program_inl.hpp>
