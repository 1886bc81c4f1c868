# Builds lib/libtenon.a, the library that is installed: one object made of compiler/ and all that it needs,
# LLVM's Support and protobuf's lite runtime included, in which nothing is visible but compiler/tenon.h. So
# whoever links it may have LLVM, protobuf and zlib of other versions in the same program.
#
# GNU ld alone dissolves section groups of a relocatable object (the linker would discard those that the
# user's objects have, too, under the feet of local symbols); llvm-objcopy alone makes unique symbols local.

if(TENON_SANITIZE OR TENON_FUZZ)
  return()
endif()
find_program(TENON_GNU_LD ld.bfd)
find_program(TENON_OBJCOPY llvm-objcopy HINTS ${TENON_LLVM_DIR}/bin NO_DEFAULT_PATH)
if(NOT TENON_GNU_LD OR NOT TENON_OBJCOPY)
  message(STATUS "ld.bfd (binutils) or llvm-objcopy (llvm-14) is missing: the library is not installed")
  return()
endif()

set(TENON_ARCHIVE ${PROJECT_BINARY_DIR}/libtenon.a)
set(_symbols ${PROJECT_SOURCE_DIR}/cmake/tenon.symbols)
set(_object ${PROJECT_BINARY_DIR}/tenon_library)
set(_parts tenon_codegen tenon_passes tenon_frontend tenon_ir tenon_onnx_proto)
list(TRANSFORM _parts REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE _archives)
add_custom_command(
  OUTPUT ${TENON_ARCHIVE}
  COMMAND ${TENON_GNU_LD} -r --force-group-allocation -o ${_object}.all.o
          --whole-archive $<TARGET_FILE:tenon_compiler> --no-whole-archive
          --start-group ${_archives} ${TENON_PROTOBUF_LITE} ${TENON_LLVM_SUPPORT} ${TENON_LLVM_DEMANGLE}
          ${TENON_ZLIB} ${TENON_TINFO} --end-group
  COMMAND ${TENON_OBJCOPY} --wildcard --keep-global-symbols=${_symbols} --strip-unneeded
          ${_object}.all.o ${_object}.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${TENON_ARCHIVE}
  COMMAND ${CMAKE_AR} rcs ${TENON_ARCHIVE} ${_object}.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${_object}.all.o ${_object}.o
  DEPENDS tenon_compiler ${_parts} ${_symbols}
  COMMENT "Combining libtenon.a"
  VERBATIM)
add_custom_target(tenon_library ALL DEPENDS ${TENON_ARCHIVE})
