# cmake --install: headers, libraries, program, and the package maxbatchConfig.cmake.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/maxbatch")

# The exported package names the target `torch`, never a path: the consumer says where LibTorch is.
install(
  TARGETS maxbatch_core maxbatch_core_header_only
  EXPORT maxbatchCoreTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT maxbatchCoreTargets NAMESPACE maxbatch:: DESTINATION "${package_dir}")

if(TARGET maxbatch)
  set_target_properties(maxbatch PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(
    TARGETS maxbatch
    EXPORT maxbatchTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(EXPORT maxbatchTargets NAMESPACE maxbatch:: DESTINATION "${package_dir}")
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/LibTorch.cmake" DESTINATION "${package_dir}")
endif()
if(TARGET maxbatch_program)
  set_target_properties(maxbatch_program PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}"
                                                    INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS maxbatch_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/maxbatchConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/maxbatchConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/maxbatchConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/maxbatchConfig.cmake" "${PROJECT_BINARY_DIR}/maxbatchConfigVersion.cmake"
        DESTINATION "${package_dir}")
