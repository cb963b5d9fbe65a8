# The warnings for our own code. Never exported, never PUBLIC: users choose their own.
add_library(maxbatch_warnings INTERFACE)
target_compile_options(
  maxbatch_warnings
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wconversion
            -Wsign-conversion
            -Wshadow
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wold-style-cast
            -Wcast-qual
            -Wformat=2
            -Wimplicit-fallthrough
            -Wextra-semi
            $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op>
            $<$<BOOL:${MAXBATCH_WARNINGS_AS_ERRORS}>:-Werror>)

# Copies the options rather than linking the target: a link, even a private one, would have to be exported with a
# static library.
function(maxbatch_set_warnings target)
  target_compile_options(${target} PRIVATE $<TARGET_PROPERTY:maxbatch_warnings,INTERFACE_COMPILE_OPTIONS>)
endfunction()
