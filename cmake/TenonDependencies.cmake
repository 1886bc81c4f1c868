# Third-party libraries as interface targets: tenon_llvm (ADT and Support),
# tenon_fmt (header-only), tenon_cli11 and tenon_onnx_proto (classes generated
# from ONNX's own schema). All are linked from static archives.

set(_tenon_setup_hint "run scripts/setup first, which installs what the build needs")

function(_tenon_require var what)
  if(NOT ${var})
    message(FATAL_ERROR "${what} not found: ${_tenon_setup_hint}")
  endif()
endfunction()

# --- LLVM 14: ADT and Support only. Found by hand because LLVM's package config
# insists on every tool of the installation being present.
set(TENON_LLVM_DIR /usr/lib/llvm-14 CACHE PATH "Prefix of the LLVM 14 installation")
find_path(TENON_LLVM_INCLUDE llvm/ADT/SmallVector.h
          PATHS ${TENON_LLVM_DIR}/include NO_DEFAULT_PATH)
_tenon_require(TENON_LLVM_INCLUDE "LLVM 14 headers (llvm-14-dev)")
find_library(TENON_LLVM_SUPPORT libLLVMSupport.a
             PATHS ${TENON_LLVM_DIR}/lib NO_DEFAULT_PATH)
_tenon_require(TENON_LLVM_SUPPORT "libLLVMSupport.a (llvm-14-dev)")
find_library(TENON_LLVM_DEMANGLE libLLVMDemangle.a
             PATHS ${TENON_LLVM_DIR}/lib NO_DEFAULT_PATH)
_tenon_require(TENON_LLVM_DEMANGLE "libLLVMDemangle.a (llvm-14-dev)")
find_library(TENON_ZLIB libz.a)
_tenon_require(TENON_ZLIB "libz.a (zlib1g-dev)")
find_library(TENON_TINFO libtinfo.a)
_tenon_require(TENON_TINFO "libtinfo.a (libncurses-dev)")

add_library(tenon_llvm INTERFACE)
target_include_directories(tenon_llvm SYSTEM INTERFACE ${TENON_LLVM_INCLUDE})
target_link_libraries(tenon_llvm INTERFACE
  ${TENON_LLVM_SUPPORT} ${TENON_LLVM_DEMANGLE} ${TENON_ZLIB} ${TENON_TINFO} pthread dl m)

# --- fmt and CLI11, both header-only.
find_path(TENON_FMT_INCLUDE fmt/format.h)
_tenon_require(TENON_FMT_INCLUDE "fmt (libfmt-dev)")
add_library(tenon_fmt INTERFACE)
target_compile_definitions(tenon_fmt INTERFACE FMT_HEADER_ONLY)

find_path(TENON_CLI11_INCLUDE CLI/CLI.hpp)
_tenon_require(TENON_CLI11_INCLUDE "CLI11 (libcli11-dev)")
add_library(tenon_cli11 INTERFACE)
foreach(_lib fmt cli11)
  string(TOUPPER ${_lib} _upper)
  # A compiler's own folder must not be named again: -isystem would reorder it.
  if(NOT TENON_${_upper}_INCLUDE STREQUAL "/usr/include")
    target_include_directories(tenon_${_lib} SYSTEM INTERFACE ${TENON_${_upper}_INCLUDE})
  endif()
endforeach()

# --- ONNX message classes. The schema comes out of the pinned onnx wheel, so new
# fields of the format are known whatever the distribution packages. The lite
# runtime is enough: nothing here needs reflection.
set(TENON_DEPS_DIR ${PROJECT_SOURCE_DIR}/.deps CACHE PATH "Folder filled by scripts/setup")
set(TENON_ONNX_PROTO_SHA256 8f39d0a1ae1abef5ca648922cdb06716d6bd1573c9e972b42854c16e9e352c16)
set(_schema ${TENON_DEPS_DIR}/onnx-ml.proto)
if(NOT EXISTS ${_schema})
  message(FATAL_ERROR "${_schema} is missing: ${_tenon_setup_hint}")
endif()
file(SHA256 ${_schema} _schema_sha)
if(NOT _schema_sha STREQUAL TENON_ONNX_PROTO_SHA256)
  message(FATAL_ERROR "${_schema} is not the schema of onnx 1.23.2 "
                      "(sha256 ${_schema_sha}): delete it and ${_tenon_setup_hint}")
endif()
find_program(TENON_PROTOC protoc)
_tenon_require(TENON_PROTOC "protoc (protobuf-compiler)")
find_library(TENON_PROTOBUF_LITE libprotobuf-lite.a)
_tenon_require(TENON_PROTOBUF_LITE "libprotobuf-lite.a (libprotobuf-dev)")

set(_proto_dir ${PROJECT_BINARY_DIR}/proto)
file(MAKE_DIRECTORY ${_proto_dir})
add_custom_command(
  OUTPUT ${_proto_dir}/onnx-ml.pb.cc ${_proto_dir}/onnx-ml.pb.h
  COMMAND ${TENON_PROTOC} --proto_path=${TENON_DEPS_DIR} --cpp_out=lite:${_proto_dir} ${_schema}
  DEPENDS ${_schema}
  COMMENT "Generating ONNX message classes"
  VERBATIM)
add_library(tenon_onnx_proto STATIC ${_proto_dir}/onnx-ml.pb.cc ${_proto_dir}/onnx-ml.pb.h)
target_compile_options(tenon_onnx_proto PRIVATE -w -ffunction-sections -fdata-sections)
target_include_directories(tenon_onnx_proto SYSTEM PUBLIC ${_proto_dir})
target_link_libraries(tenon_onnx_proto PUBLIC ${TENON_PROTOBUF_LITE} pthread)
