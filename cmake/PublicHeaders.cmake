# Public headers are listed beside the sources that answer them, as paths below include/maxbatch/.
#
#   maxbatch_core_headers(search/phase.hpp impl/search/phase_inl.hpp)   # of maxbatch::core, in both build modes
#   maxbatch_headers(training/trial.hpp)                                # of maxbatch::maxbatch
function(_maxbatch_add_headers target scope)
  list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/include/maxbatch/" OUTPUT_VARIABLE files)
  target_sources(
    ${target}
    ${scope}
    FILE_SET
    HEADERS
    BASE_DIRS
    "${PROJECT_SOURCE_DIR}/include"
    FILES
    ${files})
endfunction()

function(maxbatch_core_headers)
  _maxbatch_add_headers(maxbatch_core PUBLIC ${ARGN})
  _maxbatch_add_headers(maxbatch_core_header_only INTERFACE ${ARGN})
endfunction()

function(maxbatch_headers)
  _maxbatch_add_headers(maxbatch PUBLIC ${ARGN})
endfunction()
