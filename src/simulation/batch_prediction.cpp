#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "batch_prediction.cpp belongs to the compiled core; header-only users include <maxbatch/simulation/batch_prediction.hpp>"
#endif

#include <maxbatch/impl/simulation/batch_prediction_inl.hpp>
