#if !defined(MAXBATCH_COMPILED_LIB)
#error "size_law.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/size_law.hpp>"
#endif

#include <maxbatch/impl/simulation/size_law_inl.hpp>
