# Toolchain for a compiler that runs on aarch64 Linux, built on x86-64: Debian's cross compiler, and the
# libraries of that architecture that `scripts/setup --aarch64` unpacks in .deps/aarch64. Programs are this
# machine's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(TENON_GNU_LD aarch64-linux-gnu-ld.bfd CACHE STRING "GNU ld of the target")

# Without the .. in it, which a second configuration resolves: every command would be another one.
get_filename_component(TENON_AARCH64_ROOT ${CMAKE_CURRENT_LIST_DIR}/../.deps/aarch64 ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${TENON_AARCH64_ROOT})
# Shared libraries that a module is linked with lie there, too.
foreach(folder usr/lib lib)
  string(APPEND CMAKE_MODULE_LINKER_FLAGS_INIT
         " -L${TENON_AARCH64_ROOT}/${folder}/aarch64-linux-gnu -Wl,-rpath-link,${TENON_AARCH64_ROOT}/${folder}/aarch64-linux-gnu")
endforeach()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
# Headers of LLVM, protobuf, fmt and CLI11 are the same for both, those of this machine are taken where
# the other folder has none.
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
# Python and Tenon are named by their folders.
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)

# Where there is an emulator, built programs can be run.
find_program(TENON_QEMU_AARCH64 qemu-aarch64)
if(TENON_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${TENON_QEMU_AARCH64})
endif()
