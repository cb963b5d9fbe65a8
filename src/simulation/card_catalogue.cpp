#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "card_catalogue.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/card_catalogue.hpp>"
#endif

#include <maxbatch/impl/simulation/card_catalogue_inl.hpp>
