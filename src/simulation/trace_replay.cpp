#if !defined(MAXBATCH_COMPILED_LIB)
#error "trace_replay.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/trace_replay.hpp>"
#endif

#include <maxbatch/impl/simulation/trace_replay_inl.hpp>
