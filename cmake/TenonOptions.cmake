# Language standard, build types, warnings, sanitizers and link mode.

option(TENON_STATIC "Link tenon as one fully static executable" ON)
option(TENON_SANITIZE "Build with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
option(TENON_FUZZ "Build with clang for libFuzzer, with the same sanitizers" OFF)
option(TENON_WERROR "Treat warnings in the project's own code as errors" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# Of what reads llvm/Support/JSON.h: in C++20 mode clang 14 instantiates libstdc++ 12's constexpr vector
# there while its element is incomplete, and fails.
set(TENON_JSON_STANDARD 20)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15)
  set(TENON_JSON_STANDARD 17)
endif()
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# What goes into libtenon.a fits shared libraries, too. Builds with sanitizers have no archive.
set(TENON_SHAREABLE ON)
if(TENON_SANITIZE OR TENON_FUZZ)
  set(TENON_SHAREABLE OFF)
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# -O2 rather than -O3: half the compile time, and the compiler is not the hot code.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# Dev builds keep assertions and line tables, and compile quickly.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TENON_CCACHE ccache)
  if(TENON_CCACHE)
    # Without the first setting ccache passes by sources with a precompiled header; with the others a
    # clone in another folder finds what this one compiled.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
        CCACHE_NOHASHDIR=1 ${TENON_CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${TENON_CCACHE})
  endif()
endif()

# Flags of every target of the project.
add_library(tenon_flags INTERFACE)
target_include_directories(tenon_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(tenon_flags INTERFACE
  -Wall -Wextra $<$<BOOL:${TENON_WERROR}>:-Werror>
  -ffunction-sections -fdata-sections
  # The oracle's arithmetic must not depend on which multiply-adds get contracted.
  -ffp-contract=off)
target_link_options(tenon_flags INTERFACE -Wl,--gc-sections)

# A cross compiler looks for linkers of its own name.
find_program(TENON_LLD ld.lld)
if(TENON_LLD AND NOT CMAKE_CROSSCOMPILING)
  target_link_options(tenon_flags INTERFACE -fuse-ld=lld)
endif()

# The standard library's own checks of indices and empty containers stay on in every build: the compiler
# reads files of strangers.
add_compile_definitions(_GLIBCXX_ASSERTIONS)

if(TENON_SANITIZE)
  # The sanitizers' runtimes are shared objects.
  set(TENON_STATIC OFF)
  # Without NDEBUG: LLVM's containers check, too. -O0 is built in a fifth of the time that g++ takes with
  # -O1.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O0 -g1")
  # For all targets, also those that take no other flag of the project. The vptr check would need
  # run-time type information of LLVM.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(tenon_flags INTERFACE -Werror=dangling -Werror=return-stack-address)
  endif()
endif()

if(TENON_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TENON_FUZZ needs clang, found ${CMAKE_CXX_COMPILER}: use the preset fuzz")
  endif()
  set(TENON_STATIC OFF)
  # The vptr check would need run-time type information of LLVM.
  target_compile_options(tenon_flags INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr,function
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(tenon_flags INTERFACE -fsanitize=address,undefined)
endif()
