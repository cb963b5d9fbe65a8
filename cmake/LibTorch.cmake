# Finds LibTorch and gives the target `torch`. Installed beside maxbatchConfig.cmake, which uses the same function.
#
# Note [No nvcc needed for LibTorch]
# find_package(Torch) of a CUDA build looks for a CUDA toolkit, enables the CUDA language, refuses to go on without
# nvcc, and changes global flags (its default architectures hold sm_50, which nvcc 13 refuses). We compile no kernel
# against LibTorch, so none of that is wanted. Its public/cuda.cmake returns at once when the target torch::cudart
# exists, hence we make that target ourselves, from the CUDA runtime that comes with the wheel. A project that wants
# LibTorch's own CUDA set-up calls find_package(Torch) before it finds or adds maxbatch; then the target `torch` is
# there and nothing is done here.

set(MAXBATCH_LIBTORCH_VERSION 2.11)

# Sets <found> and MAXBATCH_LIBTORCH_HAS_CUDA in the caller. With REQUIRED, absence is an error; another version than
# ours always is.
function(maxbatch_find_libtorch found)
  cmake_parse_arguments(PARSE_ARGV 1 arg "REQUIRED" "" "")
  set(${found} FALSE PARENT_SCOPE)

  if(NOT TARGET torch)
    set(config "")
    if(Torch_DIR AND EXISTS "${Torch_DIR}/TorchConfig.cmake")
      set(config "${Torch_DIR}/TorchConfig.cmake")
    else()
      find_file(
        MAXBATCH_TORCH_CONFIG TorchConfig.cmake
        HINTS "${Torch_ROOT}" "$ENV{Torch_ROOT}"
        PATH_SUFFIXES Torch share/cmake/Torch lib/cmake/Torch cmake/Torch torch/share/cmake/Torch NO_CACHE)
      if(MAXBATCH_TORCH_CONFIG)
        set(config "${MAXBATCH_TORCH_CONFIG}")
      endif()
    endif()

    if(NOT config)
      set(text "LibTorch ${MAXBATCH_LIBTORCH_VERSION} was not found. Put the folder that holds Torch/TorchConfig.cmake "
               "(of the PyPI wheel: <site-packages>/torch/share/cmake) into CMAKE_PREFIX_PATH")
      string(CONCAT text ${text})
      if(arg_REQUIRED)
        message(FATAL_ERROR "maxbatch: ${text}.")
      endif()
      message(STATUS "maxbatch: ${text}; building maxbatch::core only.")
      return()
    endif()

    cmake_path(GET config PARENT_PATH config_dir)
    set(PACKAGE_VERSION "")
    include("${config_dir}/TorchConfigVersion.cmake")
    if(NOT PACKAGE_VERSION MATCHES "^2\\.11([.+a-z].*)?$")
      message(FATAL_ERROR "maxbatch needs LibTorch ${MAXBATCH_LIBTORCH_VERSION}, and ${config_dir} holds LibTorch "
                          "${PACKAGE_VERSION}. Point CMAKE_PREFIX_PATH to another one, or set MAXBATCH_CORE_ONLY=ON to "
                          "build maxbatch::core, which needs none.")
    endif()

    cmake_path(SET prefix NORMALIZE "${config_dir}/../../..")
    if(EXISTS "${prefix}/lib/libtorch_cuda.so" AND NOT TARGET torch::cudart)
      _maxbatch_import_cudart("${prefix}")
    endif()
    if(NOT TARGET caffe2::mkl)
      # MKL is inside libtorch_cpu.so; LibTorch's own definition adds folders such as /lib/intel64 to everyone's RUNPATH.
      add_library(caffe2::mkl INTERFACE IMPORTED GLOBAL)
    endif()

    set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL TRUE)
    set(CMAKE_MESSAGE_LOG_LEVEL ERROR) # "library kineto not found" is said of every wheel
    find_package(Torch REQUIRED PATHS "${config_dir}" NO_DEFAULT_PATH)
    unset(CMAKE_MESSAGE_LOG_LEVEL)
    cmake_path(GET config_dir PARENT_PATH shown)
    message(STATUS "maxbatch: LibTorch ${PACKAGE_VERSION} in ${shown}")
  endif()

  if(TARGET torch_cuda)
    set(MAXBATCH_LIBTORCH_HAS_CUDA 1 PARENT_SCOPE)
  else()
    set(MAXBATCH_LIBTORCH_HAS_CUDA 0 PARENT_SCOPE)
  endif()
  set(${found} TRUE PARENT_SCOPE)
endfunction()

# torch::cudart from the wheels beside LibTorch, else from a CUDA toolkit. See Note [No nvcc needed for LibTorch].
function(_maxbatch_import_cudart prefix)
  set(wheels "${prefix}/../nvidia")
  set(places "${wheels}/cu13" "${wheels}/cuda_runtime" "${prefix}" "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" /usr/local/cuda)
  find_path(include cuda_runtime_api.h PATHS ${places} PATH_SUFFIXES include targets/x86_64-linux/include
                                                                     NO_CACHE NO_DEFAULT_PATH)
  find_file(library NAMES libcudart.so.13 libcudart.so.12 libcudart.so PATHS ${places}
            PATH_SUFFIXES lib lib64 targets/x86_64-linux/lib NO_CACHE NO_DEFAULT_PATH)
  if(NOT include OR NOT library)
    message(FATAL_ERROR "maxbatch: LibTorch in ${prefix} is built for CUDA, and its CUDA runtime (cuda_runtime_api.h, "
                        "libcudart.so) was found neither beside it nor in CUDA_HOME or /usr/local/cuda. Install the "
                        "CUDA runtime, or set MAXBATCH_CORE_ONLY=ON.")
  endif()
  cmake_path(NORMAL_PATH include)
  cmake_path(NORMAL_PATH library)
  add_library(torch::cudart SHARED IMPORTED GLOBAL)
  set_target_properties(torch::cudart PROPERTIES IMPORTED_LOCATION "${library}" INTERFACE_INCLUDE_DIRECTORIES
                                                                                "${include}")
endfunction()
