# One precompiled header for <torch/torch.h>: a minute and 690 MB per set of flags. Loading it takes 8 s, so it is for
# sources that include <torch/torch.h> or torch::nn (20 to 30 s without it), and a loss for those that make do with
# torch/types.h (9 s) or c10 headers (1 s). maxbatch_use_torch_pch tells them apart by their #include lines, and those of
# headers beside them, whenever CMake configures.
#
# GCC uses a precompiled header only where code generation, debug format and macros agree; -Winvalid-pch (CMake adds it)
# with -Werror makes a silent fall-back an error. Hence everything is position independent, the header is compiled with
# our warnings too (-Wpedantic takes a predefined macro away), and per-target macros must not occur in LibTorch.

# Sets <result>: whether the file includes what the precompiled header is for.
function(_maxbatch_includes_torch file result)
  set(${result} FALSE PARENT_SCOPE)
  file(STRINGS "${file}" lines REGEX "^#include [<\"]")
  foreach(line IN LISTS lines)
    if(line MATCHES "<torch/((torch|all|nn|optim|data|script)\\.h|nn/)")
      set(${result} TRUE PARENT_SCOPE)
      return()
    elseif(line MATCHES "\"([^\"]+)\"")
      cmake_path(GET file PARENT_PATH folder)
      foreach(header "${folder}/${CMAKE_MATCH_1}" "${PROJECT_SOURCE_DIR}/tests/${CMAKE_MATCH_1}")
        if(EXISTS "${header}" AND NOT header STREQUAL file)
          _maxbatch_includes_torch("${header}" through_header)
          if(through_header)
            set(${result} TRUE PARENT_SCOPE)
            return()
          endif()
        endif()
      endforeach()
    endif()
  endforeach()
endfunction()

# maxbatch_use_torch_pch(<target> [UNOPTIMIZED]), to be called when the target has all of its sources. UNOPTIMIZED, for tests: most of
# their time is LibTorch's and ours, both optimized, and without -O2 recipes_test.cpp takes 11 s and not 24.
function(maxbatch_use_torch_pch target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "UNOPTIMIZED" "" "")
  if(NOT MAXBATCH_PRECOMPILE_TORCH)
    return()
  endif()

  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  set(any FALSE)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}")
    if(NOT EXISTS "${source}")
      continue() # CMake will say so
    endif()
    _maxbatch_includes_torch("${source}" includes)
    if(includes)
      set(any TRUE)
    else()
      set_source_files_properties("${source}" TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  if(NOT any)
    return()
  endif()

  set(pch maxbatch_torch_pch)
  set(options $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>) # for ccache: keeps the #include of the precompiled header visible to it
  if(arg_UNOPTIMIZED AND NOT MAXBATCH_SANITIZE)
    set(pch maxbatch_torch_pch_unoptimized)
    list(APPEND options $<$<CXX_COMPILER_ID:GNU,Clang>:-O0>)
  endif()
  if(NOT TARGET ${pch})
    set(source "${PROJECT_BINARY_DIR}/torch_pch.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "// Carries the precompiled header.\n")
    add_library(${pch} OBJECT "${source}")
    maxbatch_configure_target(${pch})
    maxbatch_set_warnings(${pch})
    target_link_libraries(${pch} PRIVATE torch)
    target_precompile_headers(${pch} PRIVATE <torch/torch.h>)
    target_compile_options(${pch} PRIVATE ${options})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
  target_compile_options(${target} PRIVATE ${options})
endfunction()
