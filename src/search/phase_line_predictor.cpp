#if !defined(MAXBATCH_COMPILED_LIB)
#error \
    "phase_line_predictor.cpp belongs to the compiled core; header-only users include <maxbatch/search/phase_line_predictor.hpp>"
#endif

#include <maxbatch/impl/search/phase_line_predictor_inl.hpp>
