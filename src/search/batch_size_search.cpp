#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "batch_size_search.cpp belongs to the compiled core; header-only users include <maxbatch/search/batch_size_search.hpp>"
#endif

#include <maxbatch/impl/search/batch_size_search_inl.hpp>
