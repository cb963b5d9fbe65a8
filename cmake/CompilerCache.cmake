# ccache, where it is installed and we are the project being built.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(MAXBATCH_CCACHE ccache)
  mark_as_advanced(MAXBATCH_CCACHE)
  if(MAXBATCH_CCACHE)
    # Without these ccache leaves every unit that uses a precompiled header uncached (its manual, "Precompiled headers").
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND}" -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime "${MAXBATCH_CCACHE}")
  endif()
endif()
