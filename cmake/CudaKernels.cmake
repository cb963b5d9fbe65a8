# maxbatch_add_cuda_kernels(<target> <files.cu>...)
#
# Compiles kernels with plain nvcc commands, where there is an nvcc. CMake's CUDA language is not used: it looks for a
# device, links a static runtime beside LibTorch's, and cannot be switched on for one folder. The kernels include no header
# of LibTorch (plain pointers), so nvcc's own headers and any host compiler will do. They call the CUDA runtime that LibTorch
# brings, through the target torch.

# Turing to Blackwell, and the newest also as PTX for what comes after it.
set(MAXBATCH_CUDA_ARCHITECTURES 75 80 86 89 90 100 120 CACHE STRING "Compute capabilities that kernels are compiled for")

# Sets <result> to nvcc, or to nothing with a message.
function(maxbatch_find_nvcc result)
  set(${result} "" PARENT_SCOPE)
  if(NOT MAXBATCH_LIBTORCH_HAS_CUDA)
    return()
  endif()
  find_program(MAXBATCH_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin
               DOC "nvcc of a CUDA 13 toolkit, for maxbatch's own kernels")
  if(NOT MAXBATCH_NVCC)
    message(STATUS "maxbatch: no nvcc; CUDA kernels are off, and detectors run on the CPU only (put nvcc of CUDA 13 on "
                   "PATH, or set MAXBATCH_NVCC)")
    return()
  endif()
  execute_process(COMMAND "${MAXBATCH_NVCC}" --version OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed)
  if(failed OR NOT said MATCHES "release ([0-9]+)\\.([0-9]+)")
    message(WARNING "maxbatch: ${MAXBATCH_NVCC} does not run; CUDA kernels are off:\n${said}")
    return()
  endif()
  # Kernels register with the runtime that LibTorch links; another major version has other entry points.
  if(NOT CMAKE_MATCH_1 EQUAL 13)
    message(STATUS "maxbatch: ${MAXBATCH_NVCC} is of CUDA ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}, and LibTorch of CUDA 13; CUDA "
                   "kernels are off")
    return()
  endif()
  set(${result} "${MAXBATCH_NVCC}" PARENT_SCOPE)
endfunction()

function(maxbatch_add_cuda_kernels target)
  maxbatch_find_nvcc(nvcc)
  if(NOT nvcc)
    target_compile_definitions(${target} PRIVATE MAXBATCH_HAS_CUDA_KERNELS=0)
    return()
  endif()
  set(codes "")
  foreach(architecture IN LISTS MAXBATCH_CUDA_ARCHITECTURES)
    list(APPEND codes "-gencode=arch=compute_${architecture},code=sm_${architecture}")
  endforeach()
  list(GET MAXBATCH_CUDA_ARCHITECTURES -1 newest)
  list(APPEND codes "-gencode=arch=compute_${newest},code=compute_${newest}")

  set(objects "")
  foreach(file IN LISTS ARGN)
    set(source "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${file}.o")
    cmake_path(GET object PARENT_PATH folder)
    file(MAKE_DIRECTORY "${folder}")
    # Without contraction the CPU's code rounds alike; see box_math.hpp.
    add_custom_command(
      OUTPUT "${object}"
      COMMAND
        ${CMAKE_CXX_COMPILER_LAUNCHER} "${nvcc}" -std=c++17 -O3 -lineinfo -fmad=false -ccbin "${CMAKE_CXX_COMPILER}"
        -Xcompiler=-fPIC -Werror=all-warnings ${codes} -MD -MF "${object}.d" -MT "${object}" -c "${source}" -o "${object}"
      DEPENDS "${source}"
      DEPFILE "${object}.d"
      COMMENT "Building CUDA object ${file}"
      VERBATIM)
    list(APPEND objects "${object}")
  endforeach()
  # The rule belongs to this folder and the target to another.
  add_custom_target(${target}_cuda_kernels DEPENDS ${objects})
  add_dependencies(${target} ${target}_cuda_kernels)
  set_source_files_properties(${objects} TARGET_DIRECTORY ${target} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(${target} PRIVATE ${objects})
  target_compile_definitions(${target} PRIVATE MAXBATCH_HAS_CUDA_KERNELS=1)
  list(LENGTH MAXBATCH_CUDA_ARCHITECTURES count)
  message(STATUS "maxbatch: CUDA kernels by ${nvcc} for ${count} architectures")
endfunction()
