#if !defined(MAXBATCH_COMPILED_LIB)
#error "trace_file.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/trace_file.hpp>"
#endif

#include <maxbatch/impl/simulation/trace_file_inl.hpp>
