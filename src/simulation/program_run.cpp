#if !defined(MAXBATCH_COMPILED_LIB)
#error "program_run.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/program_run.hpp>"
#endif

#include <maxbatch/impl/simulation/program_run_inl.hpp>
