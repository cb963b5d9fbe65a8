# The libraries and the program as they lie in the wheel: all in maxbatch/lib. python/pyproject.toml installs the component.
set(parts maxbatch maxbatch_c maxbatch_cli)
if(TARGET maxbatch_dry_cuda)
  list(APPEND parts maxbatch_dry_cuda maxbatch_allocator_watch maxbatch_card_watch maxbatch_data_policies)
  # The other part of maxbatch::dry_cuda_link is for C++ programs.
endif()
add_custom_target(maxbatch_python DEPENDS ${parts} maxbatch_program)

# LibTorch is the torch package beside ours: in a process of Python it is loaded already, and the program finds it so.
foreach(part IN LISTS parts ITEMS maxbatch_program)
  if(NOT part IN_LIST "maxbatch_allocator_watch;maxbatch_data_policies")
    set_target_properties(
      ${part}
      PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../../torch/lib;$ORIGIN/../../nvidia/cu13/lib"
                 INSTALL_RPATH_USE_LINK_PATH OFF)
  endif()
endforeach()
install(
  TARGETS ${parts} maxbatch_program
  LIBRARY DESTINATION maxbatch/lib COMPONENT python NAMELINK_SKIP
  RUNTIME DESTINATION maxbatch/lib COMPONENT python
  FILE_SET HEADERS DESTINATION maxbatch/include COMPONENT python_headers)
