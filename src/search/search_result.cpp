#if !defined(MAXBATCH_COMPILED_LIB)
#error "search_result.cpp belongs to the compiled core; header-only users include <maxbatch/search/search_result.hpp>"
#endif

#include <maxbatch/impl/search/search_result_inl.hpp>
