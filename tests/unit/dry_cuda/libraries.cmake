# Tests of src/dry_cuda/libraries and src/dry_cuda/generate. Included by CMakeLists.txt.
get_target_property(dry_cuda_includes maxbatch_dry_cuda INCLUDE_DIRECTORIES)
set(libraries_dir "${PROJECT_SOURCE_DIR}/src/dry_cuda/libraries")

# The parts that need neither CUDA's libraries nor the rest of the dry card, compiled once more: it shows nothing of them.
add_library(maxbatch_dry_libraries_parts STATIC
  ${libraries_dir}/convolution_question.cpp ${libraries_dir}/convolution_table.cpp ${libraries_dir}/convolution_table_text.cpp ${libraries_dir}/cudnn_planning.cpp
  ${libraries_dir}/cudnn_rnn_sizes.cpp ${libraries_dir}/fft_scratch.cpp ${libraries_dir}/measured_sizes.cpp
  ${libraries_dir}/sparse_scratch.cpp
  "${PROJECT_BINARY_DIR}/src/dry_cuda/libraries/built_in_tables.cpp")
maxbatch_configure_target(maxbatch_dry_libraries_parts)
maxbatch_set_warnings(maxbatch_dry_libraries_parts)
target_include_directories(maxbatch_dry_libraries_parts PUBLIC "${PROJECT_SOURCE_DIR}/src")
target_include_directories(maxbatch_dry_libraries_parts SYSTEM PUBLIC ${dry_cuda_includes})
target_compile_definitions(maxbatch_dry_libraries_parts PUBLIC MAXBATCH_MEASURED_DIR="${libraries_dir}/measured")

maxbatch_add_test(
  NAME dry_cuda_libraries_test
  SOURCES libraries_convolution_table_test.cpp libraries_cudnn_planning_test.cpp libraries_scratch_test.cpp
  LINK maxbatch_dry_libraries_parts
  LABELS unit)

# Python: what LibTorch imports against what is exported.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
get_property(dry_cuda_headers GLOBAL PROPERTY MAXBATCH_DRY_CUDA_HEADERS)
if(TARGET torch)
  add_test(
    NAME dry_cuda_libraries_exports
    COMMAND
      Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/libraries_exports.py" --dry $<TARGET_FILE:maxbatch_dry_cuda> --torch
      $<TARGET_FILE_DIR:torch> --list "${Python3_EXECUTABLE}"
      "${PROJECT_SOURCE_DIR}/src/dry_cuda/generate/entry_points.py" --compiler "${CMAKE_CXX_COMPILER}" --list --include
      ${dry_cuda_headers})
  set_tests_properties(dry_cuda_libraries_exports PROPERTIES LABELS unit TIMEOUT 120)
endif()

# Python: operators' peaks against those of an H200, where LibTorch came as a wheel and its Python stands beside it.
if(TARGET torch)
  get_target_property(torch_library torch LOCATION)
  get_filename_component(torch_lib_dir "${torch_library}" DIRECTORY)
  get_filename_component(python_with_torch "${torch_lib_dir}/../../../../../bin/python" ABSOLUTE)
  if(EXISTS "${python_with_torch}")
    add_test(
      NAME dry_cuda_libraries_peaks
      COMMAND
        ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:maxbatch_dry_cuda> MAXBATCH_CARD=h200
        # LibTorch opens its solvers by name.
        LD_LIBRARY_PATH=${torch_lib_dir}:${torch_lib_dir}/../../nvidia/cu13/lib "${python_with_torch}"
        "${CMAKE_CURRENT_SOURCE_DIR}/libraries_peaks.py" --compare "${CMAKE_CURRENT_SOURCE_DIR}/libraries_peaks_h200.txt")
    set_tests_properties(dry_cuda_libraries_peaks PROPERTIES LABELS unit TIMEOUT 300)
  endif()
endif()
