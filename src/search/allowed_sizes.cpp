#if !defined(MAXBATCH_COMPILED_LIB)
#error "allowed_sizes.cpp belongs to the compiled core; header-only users include <maxbatch/search/allowed_sizes.hpp>"
#endif

#include <maxbatch/impl/search/allowed_sizes_inl.hpp>
