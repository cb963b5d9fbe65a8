# Everything a user may switch. Defaults are on only when maxbatch is the project being built, so that add_subdirectory
# brings the libraries and nothing else.
option(MAXBATCH_CORE_ONLY "Build maxbatch::core only, without looking for LibTorch" OFF)
option(MAXBATCH_BUILD_PROGRAM "Build the program maxbatch (needs LibTorch)" ${PROJECT_IS_TOP_LEVEL})
option(MAXBATCH_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(MAXBATCH_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(MAXBATCH_BUILD_BENCHMARKS "Build the benchmarks" OFF)
option(MAXBATCH_INSTALL "Make install rules" ${PROJECT_IS_TOP_LEVEL})
option(MAXBATCH_PYTHON_PACKAGE "Make install rules for the Python package (python/pyproject.toml)" OFF)
option(MAXBATCH_PRECOMPILE_TORCH "Precompile <torch/torch.h> once (690 MB, saves 10 s per source)" ${PROJECT_IS_TOP_LEVEL})
option(MAXBATCH_WARNINGS_AS_ERRORS "Warnings in our own code are errors" ${PROJECT_IS_TOP_LEVEL})
set(MAXBATCH_SANITIZE "" CACHE STRING "Sanitizers for everything built here, as -fsanitize takes them: address,undefined")

# Loaded ahead of everything into other programs, where a sanitizer's runtime cannot follow; and its headers come with
# LibTorch.
if(PROJECT_IS_TOP_LEVEL AND NOT MAXBATCH_SANITIZE AND NOT MAXBATCH_CORE_ONLY)
  set(dry_cuda_default ON)
else()
  set(dry_cuda_default OFF)
endif()
option(MAXBATCH_BUILD_DRY_CUDA "Build maxbatch::dry_cuda and `maxbatch dry-run`: CUDA 13 without a device (no nvcc needed)"
       ${dry_cuda_default})

include(GNUInstallDirs)

# How all of our targets are compiled. A function, so that nothing changes for a project that adds us.
function(maxbatch_configure_target target)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  # One kind of code for libraries and programs lets one precompiled header serve both: CMake's property would give
  # programs -fPIE.
  target_compile_options(${target} PRIVATE -fPIC)
  target_compile_features(${target} PUBLIC cxx_std_17)
  if(MAXBATCH_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${MAXBATCH_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
    # GCC's own advice: with sanitizers it sees uninitialised values where there are none.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
    target_link_options(${target} PRIVATE -fsanitize=${MAXBATCH_SANITIZE})
  endif()
endfunction()
