#if !defined(MAXBATCH_COMPILED_LIB)
#error "card.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/card.hpp>"
#endif

#include <maxbatch/impl/simulation/card_inl.hpp>
