# tenon_add_library(NAME FOLDER folder LINK libs... [PRECOMPILE headers...]): the static library of
# all C++ sources below `folder`. A folder without sources yields an empty library.
# tenon_precompile(TARGET headers...): headers that most of a target's sources read, parsed once. None
# of the project's own: a change of one would build everything again. Sources still include what they
# use, which clang-tidy checks without these (scripts/lint).

option(TENON_PRECOMPILE "Parse the libraries' headers once for each target" ON)

# What nearly every source of the compiler reads: half of its compile time.
set(TENON_COMMON_HEADERS
  <algorithm> <cmath> <functional> <map> <memory> <numeric> <set> <string> <vector>
  llvm/ADT/DenseMap.h llvm/ADT/MapVector.h llvm/ADT/Optional.h llvm/ADT/STLExtras.h
  llvm/ADT/SmallVector.h llvm/ADT/StringExtras.h llvm/ADT/StringMap.h llvm/ADT/StringSet.h
  llvm/Support/Format.h llvm/Support/MathExtras.h llvm/Support/MemoryBuffer.h
  llvm/Support/raw_ostream.h)

function(tenon_precompile target)
  if(NOT TENON_PRECOMPILE)
    return()
  endif()
  list(TRANSFORM ARGN REPLACE "^([^<].*)$" "\"\\1\"" OUTPUT_VARIABLE headers)
  target_precompile_headers(${target} PRIVATE ${headers})
  # What ccache needs to tell one precompiled header from another.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  else()
    # Warnings of inlined library code, which g++ 12 gets wrong, are no longer known as such.
    target_compile_options(${target} PRIVATE -fpch-preprocess
      -Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict
      -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endfunction()

set(TENON_EMPTY_SOURCE ${PROJECT_BINARY_DIR}/empty.cpp)
if(NOT EXISTS ${TENON_EMPTY_SOURCE})
  file(WRITE ${TENON_EMPTY_SOURCE} "// Stands in for a folder that has no sources.\n")
endif()

# tenon_make_shareable(TARGET): its code may go into a shared library.
function(tenon_make_shareable target)
  if(TENON_SHAREABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  endif()
endfunction()

function(tenon_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER" "LINK;PRECOMPILE")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/${arg_FOLDER}/*.cpp ${PROJECT_SOURCE_DIR}/${arg_FOLDER}/*.h)
  list(SORT sources)
  add_library(${name} STATIC ${sources})
  if(NOT sources MATCHES "\\.cpp(;|$)")
    target_sources(${name} PRIVATE ${TENON_EMPTY_SOURCE})
  endif()
  target_link_libraries(${name} PUBLIC tenon_flags ${arg_LINK})
  tenon_precompile(${name} ${TENON_COMMON_HEADERS} ${arg_PRECOMPILE})
endfunction()
