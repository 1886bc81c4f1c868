# Installs the compiler and the CMake package that offers tenon_add_model().

if(NOT TARGET tenon)
  return()
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(_package_dir lib/cmake/tenon)
set(TENON_BINDIR ${CMAKE_INSTALL_BINDIR})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/TenonConfig.cmake.in ${PROJECT_BINARY_DIR}/TenonConfig.cmake
  INSTALL_DESTINATION ${_package_dir} PATH_VARS TENON_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)

install(TARGETS tenon RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES
  ${PROJECT_BINARY_DIR}/TenonConfig.cmake ${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/TenonAddModel.cmake ${PROJECT_SOURCE_DIR}/cmake/TenonModelFlags.cmake
  DESTINATION ${_package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
