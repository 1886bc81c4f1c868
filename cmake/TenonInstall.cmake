# Installs the compiler, the library, the CMake package that offers tenon_add_model() and Tenon::compiler,
# tenon.pc for pkg-config, completion for three shells, the manual page, documents and examples; and packs
# all of it: `cpack -G DEB` or `cpack -G TGZ` in the build folder.

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
if(TENON_ARCHIVES)
  # From the folder of tenon.pc, so that the package may be moved.
  set(_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  string(REGEX REPLACE "[^/]+" ".." TENON_PC_PREFIX "${_pc_dir}")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/tenon.pc.in ${PROJECT_BINARY_DIR}/tenon.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/tenon.pc DESTINATION ${_pc_dir})
endif()

# The command says itself what its words are; a compiler for another machine cannot be asked.
if(NOT CMAKE_CROSSCOMPILING)
  set(_said ${PROJECT_BINARY_DIR}/said)
  file(MAKE_DIRECTORY ${_said})
  add_custom_command(OUTPUT ${_said}/tenon.bash ${_said}/_tenon ${_said}/tenon.fish ${_said}/tenon.1
    COMMAND tenon completion bash > ${_said}/tenon.bash
    COMMAND tenon completion zsh > ${_said}/_tenon
    COMMAND tenon completion fish > ${_said}/tenon.fish
    COMMAND tenon help --man > ${_said}/tenon.1
    DEPENDS tenon
    VERBATIM)
  add_custom_target(tenon_words ALL
    DEPENDS ${_said}/tenon.bash ${_said}/_tenon ${_said}/tenon.fish ${_said}/tenon.1)
  set(_share ${CMAKE_INSTALL_DATADIR})
  install(FILES ${_said}/tenon.bash DESTINATION ${_share}/bash-completion/completions RENAME tenon)
  install(FILES ${_said}/_tenon DESTINATION ${_share}/zsh/site-functions)
  install(FILES ${_said}/tenon.fish DESTINATION ${_share}/fish/vendor_completions.d)
  install(FILES ${_said}/tenon.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

install(FILES LICENSE README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN "build*" EXCLUDE)

set(CPACK_PACKAGE_NAME tenon)
set(CPACK_PACKAGE_CONTACT "The Tenon project")
set(CPACK_PACKAGE_VENDOR "The Tenon project")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Reads one ONNX model and writes one C++ or CUDA source file that needs nothing but a
compiler, for processors, NVIDIA GPUs and microcontrollers. The package has the command,
the compiler as a library, and packages of CMake and pkg-config.")
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/TenonPack.cmake)
# The command is static; what it writes needs a compiler, the library in programs a C++ one.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++ | clang")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, pkg-config, nvidia-cuda-toolkit, gcc-arm-none-eabi")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_GENERATOR "DEB;TGZ")
include(CPack)
