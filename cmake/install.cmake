# `cmake --install build/release --prefix DIR`: the libraries, the headers, the command, and a package that
# find_package(shoal) finds. Where LibTorch lies is recorded in it; another place is -DSHOAL_TORCH_DIR=... again.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/shoal)
set(layers core ipc envs)
set_target_properties(shoal_options PROPERTIES EXPORT_NAME options)
set_target_properties(shoal_fmt PROPERTIES EXPORT_NAME fmt)
install(TARGETS shoal_options shoal_fmt EXPORT shoal_targets)
if(SHOAL_WITH_TORCH)
  list(APPEND layers data compute distributed replays models agents samplers algos runners cli)
  set_target_properties(shoal_all PROPERTIES EXPORT_NAME shoal)
  install(TARGETS shoal_all EXPORT shoal_targets)
  install(TARGETS shoal)
endif()
foreach(layer IN LISTS layers)
  install(TARGETS shoal_${layer} EXPORT shoal_targets FILE_SET HEADERS)
endforeach()
install(EXPORT shoal_targets NAMESPACE shoal:: DESTINATION ${package})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/shoalConfig.cmake.in ${PROJECT_BINARY_DIR}/shoalConfig.cmake
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/shoalConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/shoalConfig.cmake ${PROJECT_BINARY_DIR}/shoalConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/torch.cmake DESTINATION ${package})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/results/zoo DESTINATION share/shoal FILES_MATCHING PATTERN "*.safetensors")

set(installed_plugins ${shoal_plugins})
if(SHOAL_WITH_ATARI AND SHOAL_INSTALL_ATARI)
  install(FILES ${PROJECT_SOURCE_DIR}/plugins/ale/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}/ale)
  install(FILES ${PROJECT_SOURCE_DIR}/plugins/ale/core/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}/ale/core)
else()
  list(REMOVE_ITEM installed_plugins shoal_ale shoal_ale_reference)
endif()
install(TARGETS ${installed_plugins} LIBRARY DESTINATION lib)
