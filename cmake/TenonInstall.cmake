# Installs the compiler, the library, and the CMake package that offers tenon_add_model() and
# Tenon::compiler.

if(NOT TARGET tenon)
  return()
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(_package_dir lib/cmake/tenon)
set(TENON_BINDIR ${CMAKE_INSTALL_BINDIR})
set(TENON_LIBDIR ${CMAKE_INSTALL_LIBDIR})
set(TENON_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/TenonConfig.cmake.in ${PROJECT_BINARY_DIR}/TenonConfig.cmake
  INSTALL_DESTINATION ${_package_dir} PATH_VARS TENON_BINDIR TENON_LIBDIR TENON_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)

install(TARGETS tenon RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES
  ${PROJECT_BINARY_DIR}/TenonConfig.cmake ${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/TenonAddModel.cmake ${PROJECT_SOURCE_DIR}/cmake/TenonModelFlags.cmake
  DESTINATION ${_package_dir})
if(TENON_ARCHIVES)
  install(FILES ${TENON_ARCHIVES} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/compiler/tenon.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tenon)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
