# maxbatch_add_test(NAME <name> SOURCES <files> LINK <targets> [LABELS <labels>] [PCH])
#
# One GoogleTest binary, its cases found by ctest. LABELS defaults to unit. What links maxbatch::core gets a twin
# <name>_header_only from the same sources, and both the label tsan: they know no LibTorch. PCH: <torch/torch.h> comes
# precompiled. Tests include "support/<file>" from tests/, and find data under the macro MAXBATCH_TEST_DATA_DIR.
find_package(GTest REQUIRED)
include(GoogleTest)

function(_maxbatch_add_test_binary name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PCH" "" "SOURCES;LINK;LABELS")
  add_executable(${name} ${arg_SOURCES})
  maxbatch_configure_target(${name})
  maxbatch_set_warnings(${name})
  if(arg_PCH)
    maxbatch_use_torch_pch(${name} UNOPTIMIZED)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LINK} maxbatch_test_support GTest::gmock_main)
  # Found when ctest starts, not while building: a LibTorch binary takes 2 s to load.
  gtest_discover_tests(
    ${name}
    TEST_PREFIX "${name}."
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 120
    PROPERTIES TIMEOUT 900)
  # gtest_discover_tests cannot pass on a property that is a list (CMake 3.25), so ctest reads the labels afterwards.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(CONFIGURE OUTPUT "${labels_file}" @ONLY CONTENT [[
if(@name@_TESTS)
  set_tests_properties(${@name@_TESTS} PROPERTIES LABELS "@arg_LABELS@")
endif()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()

function(maxbatch_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "PCH" "NAME" "SOURCES;LINK;LABELS")
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  set(pch "")
  if(arg_PCH)
    set(pch PCH)
  endif()
  if("maxbatch::core" IN_LIST arg_LINK)
    list(APPEND arg_LABELS tsan)
    set(header_only_link ${arg_LINK})
    list(TRANSFORM header_only_link REPLACE "^maxbatch::core$" maxbatch::core_header_only)
    _maxbatch_add_test_binary(${arg_NAME}_header_only SOURCES ${arg_SOURCES} LINK ${header_only_link}
                              LABELS ${arg_LABELS} header_only)
  endif()
  _maxbatch_add_test_binary(${arg_NAME} SOURCES ${arg_SOURCES} LINK ${arg_LINK} LABELS ${arg_LABELS} ${pch})
endfunction()

# maxbatch_add_benchmark(NAME <name> SOURCES <files> LINK <targets> [PCH]): a Google Benchmark binary, not run by ctest.
function(maxbatch_add_benchmark)
  cmake_parse_arguments(PARSE_ARGV 0 arg "PCH" "NAME" "SOURCES;LINK")
  find_package(benchmark REQUIRED)
  add_executable(${arg_NAME} ${arg_SOURCES})
  maxbatch_configure_target(${arg_NAME})
  maxbatch_set_warnings(${arg_NAME})
  if(arg_PCH)
    maxbatch_use_torch_pch(${arg_NAME})
  endif()
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LINK} maxbatch_test_support benchmark::benchmark_main)
endfunction()
