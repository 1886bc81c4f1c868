# Builds lib/libtenon.a, the library that is installed: one object made of compiler/ and all that it needs,
# LLVM's Support and protobuf's lite runtime included, in which nothing is visible but compiler/tenon.h. So
# whoever links it may have LLVM, protobuf and zlib of other versions in the same program.
#
# GNU ld alone dissolves section groups of a relocatable object (the linker would discard those that the
# user's objects have, too, under the feet of local symbols); llvm-objcopy alone makes unique symbols local.

if(NOT TENON_SHAREABLE)
  return()
endif()
find_program(TENON_GNU_LD ld.bfd)
find_program(TENON_OBJCOPY llvm-objcopy HINTS ${TENON_LLVM_DIR}/bin NO_DEFAULT_PATH)
if(NOT TENON_GNU_LD OR NOT TENON_OBJCOPY)
  message(STATUS "ld.bfd (binutils) or llvm-objcopy (llvm-14) is missing: the library is not installed")
  return()
endif()

set(_symbols ${PROJECT_SOURCE_DIR}/cmake/tenon.symbols)
set(_parts tenon_codegen tenon_passes tenon_frontend tenon_ir tenon_onnx_proto)
list(TRANSFORM _parts REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE _archives)

# tenon_combine(NAME libs...): lib<NAME>.a of the compiler and these archives.
function(tenon_combine name)
  set(archive ${PROJECT_BINARY_DIR}/lib${name}.a)
  set(object ${PROJECT_BINARY_DIR}/${name}_combined)
  add_custom_command(
    OUTPUT ${archive}
    COMMAND ${TENON_GNU_LD} -r --force-group-allocation -o ${object}.all.o
            --whole-archive $<TARGET_FILE:tenon_compiler> --no-whole-archive
            --start-group ${_archives} ${ARGN} --end-group
    COMMAND ${TENON_OBJCOPY} --wildcard --keep-global-symbols=${_symbols} --strip-unneeded
            ${object}.all.o ${object}.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_AR} rcs ${archive} ${object}.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${object}.all.o ${object}.o
    DEPENDS tenon_compiler ${_parts} ${_symbols}
    COMMENT "Combining lib${name}.a"
    VERBATIM)
  add_custom_target(${name}_library ALL DEPENDS ${archive})
endfunction()

set(_llvm ${TENON_LLVM_SUPPORT} ${TENON_LLVM_DEMANGLE} ${TENON_ZLIB})
tenon_combine(tenon ${TENON_PROTOBUF_LITE} ${_llvm} ${TENON_TINFO})
# For shared libraries, the Python package's among them. libprotobuf-lite and libtinfo are linked as such:
# the distribution's archives are not position-independent.
tenon_combine(tenon_shared_parts ${_llvm})
set(TENON_ARCHIVES ${PROJECT_BINARY_DIR}/libtenon.a ${PROJECT_BINARY_DIR}/libtenon_shared_parts.a)
