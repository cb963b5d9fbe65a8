# One precompiled header for <torch/torch.h>: a minute and 690 MB per set of flags, 10 s saved per source.
#
# GCC uses a precompiled header only where code generation, debug format and macros agree; -Winvalid-pch (CMake adds it)
# with -Werror makes a silent fall-back an error. Hence everything is position independent, the header is compiled with
# our warnings too (-Wpedantic takes a predefined macro away), and per-target macros must not occur in LibTorch.
function(maxbatch_use_torch_pch target)
  if(NOT MAXBATCH_PRECOMPILE_TORCH)
    return()
  endif()
  if(NOT TARGET maxbatch_torch_pch)
    set(source "${PROJECT_BINARY_DIR}/torch_pch.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "// Carries the precompiled header.\n")
    add_library(maxbatch_torch_pch OBJECT "${source}")
    maxbatch_configure_target(maxbatch_torch_pch)
    maxbatch_set_warnings(maxbatch_torch_pch)
    target_link_libraries(maxbatch_torch_pch PRIVATE torch)
    target_precompile_headers(maxbatch_torch_pch PRIVATE <torch/torch.h>)
    # For ccache: keeps the #include of the precompiled header visible to it.
    target_compile_options(maxbatch_torch_pch PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endif()
  target_precompile_headers(${target} REUSE_FROM maxbatch_torch_pch)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()
