# tenon_add_library(NAME FOLDER folder LINK libs...): the static library of all
# C++ sources below `folder`. A folder without sources yields an empty library.

set(TENON_EMPTY_SOURCE ${PROJECT_BINARY_DIR}/empty.cpp)
if(NOT EXISTS ${TENON_EMPTY_SOURCE})
  file(WRITE ${TENON_EMPTY_SOURCE} "// Stands in for a folder that has no sources.\n")
endif()

function(tenon_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER" "LINK")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/${arg_FOLDER}/*.cpp ${PROJECT_SOURCE_DIR}/${arg_FOLDER}/*.h)
  list(SORT sources)
  add_library(${name} STATIC ${sources})
  if(NOT sources MATCHES "\\.cpp(;|$)")
    target_sources(${name} PRIVATE ${TENON_EMPTY_SOURCE})
  endif()
  target_link_libraries(${name} PUBLIC tenon_flags ${arg_LINK})
endfunction()
