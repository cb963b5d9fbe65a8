# Tests of `maxbatch dry-run` and `maxbatch profile-gpu` with small programs, and of programs that are linked ahead. Included by
# CMakeLists.txt.
set(programs "${CMAKE_CURRENT_SOURCE_DIR}/programs")

# maxbatch_dry_program(NAME SOURCE [LINK...]): a program for the launcher to start.
function(maxbatch_dry_program name source)
  add_executable(${name} "${source}")
  maxbatch_configure_target(${name})
  target_include_directories(${name} SYSTEM PRIVATE ${dry_cuda_includes})
  target_link_libraries(${name} PRIVATE ${ARGN})
endfunction()
get_target_property(dry_cuda_includes maxbatch_dry_cuda INCLUDE_DIRECTORIES)

# Libraries that call themselves something else.
add_library(dry_other_runtime SHARED "${programs}/other_version.cpp")
set_target_properties(dry_other_runtime PROPERTIES OUTPUT_NAME cudart SOVERSION 12 NO_SONAME OFF LIBRARY_OUTPUT_DIRECTORY
                                                   "${CMAKE_CURRENT_BINARY_DIR}/other_runtime")
add_library(dry_other_libtorch SHARED "${programs}/other_version.cpp")
set_target_properties(dry_other_libtorch PROPERTIES OUTPUT_NAME torch_cpu LIBRARY_OUTPUT_DIRECTORY
                                                    "${CMAKE_CURRENT_BINARY_DIR}/other_libtorch")
maxbatch_dry_program(dry_uses_other_runtime "${programs}/uses_other_version.cpp" dry_other_runtime)
maxbatch_dry_program(dry_uses_other_libtorch "${programs}/uses_other_version.cpp" dry_other_libtorch)

# Needs cuDNN, and does not say where it is.
maxbatch_dry_program(dry_plans_a_convolution "${programs}/plans_a_convolution.cpp" maxbatch::dry_cuda)

if(TARGET torch::cudart)
  get_target_property(cudart torch::cudart IMPORTED_LOCATION)
  get_filename_component(cudart_dir "${cudart}" DIRECTORY)
  maxbatch_dry_program(dry_asks_for_devices "${programs}/asks_for_devices.cpp" "${cudart}")
  set(static_cudart "${cudart_dir}/libcudart_static.a")
  if(EXISTS "${static_cudart}")
    maxbatch_dry_program(dry_static_runtime "${programs}/asks_for_devices.cpp" "${static_cudart}" ${CMAKE_DL_LIBS}
                         Threads::Threads rt)
  endif()

  # The same test program in both worlds. Not by maxbatch_add_test: gtest_discover_tests gives its cases no variables.
  add_executable(linked_ahead_test linked_ahead_test.cpp)
  maxbatch_configure_target(linked_ahead_test)
  target_include_directories(linked_ahead_test SYSTEM PRIVATE ${dry_cuda_includes})
  target_link_libraries(linked_ahead_test PRIVATE maxbatch::dry_cuda_link "${cudart}" GTest::gmock_main)
  add_dependencies(linked_ahead_test maxbatch_dry_cuda)
  foreach(card IN ITEMS "" rtx-2080-ti)
    if(card)
      set(world dry)
    else()
      set(world real)
    endif()
    add_test(NAME linked_ahead.${world} COMMAND linked_ahead_test --gtest_brief=1)
    set_tests_properties(linked_ahead.${world} PROPERTIES LABELS unit TIMEOUT 60 ENVIRONMENT "MAXBATCH_CARD=${card}")
  endforeach()
endif()

if(TARGET maxbatch_program AND MAXBATCH_LIBTORCH_HAS_CUDA)
  find_package(nlohmann_json REQUIRED)
  add_executable(dry_convolution_training "${programs}/convolution_training.cpp")
  maxbatch_configure_target(dry_convolution_training)
  maxbatch_use_torch_pch(dry_convolution_training UNOPTIMIZED)
  target_link_libraries(dry_convolution_training PRIVATE torch)
  maxbatch_add_test(NAME dry_launcher_test SOURCES launcher_test.cpp
    "${PROJECT_SOURCE_DIR}/src/dry_cuda/libraries/convolution_table_text.cpp" LINK nlohmann_json::nlohmann_json LABELS unit)
  set(definitions MAXBATCH_PROGRAM="$<TARGET_FILE:maxbatch_program>"
                  MAXBATCH_H200_TABLE="${PROJECT_SOURCE_DIR}/src/dry_cuda/libraries/convolution_tables/h200.txt")
  set(started maxbatch_program maxbatch_dry_cuda maxbatch_allocator_watch)
  foreach(program IN ITEMS dry_uses_other_runtime dry_uses_other_libtorch dry_plans_a_convolution dry_asks_for_devices
                           dry_static_runtime dry_convolution_training)
    if(TARGET ${program})
      string(TOUPPER ${program} name)
      list(APPEND definitions MAXBATCH_${name}="$<TARGET_FILE:${program}>")
      list(APPEND started ${program})
    endif()
  endforeach()
  target_compile_definitions(dry_launcher_test PRIVATE ${definitions})
  target_include_directories(dry_launcher_test PRIVATE "${PROJECT_SOURCE_DIR}/src")
  add_dependencies(dry_launcher_test ${started})

  # With a card: tests/unit because the program is the same; ctest -L gpu.
  maxbatch_add_test(NAME profile_gpu_test SOURCES profile_gpu_test.cpp
    "${PROJECT_SOURCE_DIR}/src/dry_cuda/libraries/convolution_table_text.cpp" LINK nlohmann_json::nlohmann_json LABELS gpu)
  target_compile_definitions(profile_gpu_test PRIVATE ${definitions})
  target_include_directories(profile_gpu_test PRIVATE "${PROJECT_SOURCE_DIR}/src")
  add_dependencies(profile_gpu_test maxbatch_program)
endif()
