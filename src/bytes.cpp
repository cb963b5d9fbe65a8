#if !defined(MAXBATCH_COMPILED_LIB)
#error "bytes.cpp belongs to the compiled core; header-only users include <maxbatch/bytes.hpp>"
#endif

#include <maxbatch/impl/bytes_inl.hpp>
