#if !defined(MAXBATCH_COMPILED_LIB)
#error "trial_outcome.cpp belongs to the compiled core; header-only users include <maxbatch/search/trial_outcome.hpp>"
#endif

#include <maxbatch/impl/search/trial_outcome_inl.hpp>
