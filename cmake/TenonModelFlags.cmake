# Run by `cmake -P`, known only once the model has been compiled (cpu:native becomes a named level then):
#
#   OUTPUT   gets the compiler flags that the head of the generated file SOURCE asks for, such as -O2,
#            -march=..., -mavx2 or -ffp-contract=off; for nvcc those that CMake has no property for.
#   WEIGHTS  becomes an empty file where HEADER says that the program holds its weights, so that build
#            systems find all that they were promised.

# The first line is the build command. Those below name the model and Tenon's own options, whose
# -O1 is not the compiler's.
file(STRINGS ${SOURCE} command LIMIT_COUNT 1)
set(flags "")
if(SOURCE MATCHES "[.]cu$")
  # Architectures and standard are the target's properties; -O is the host code's, of CMake's build type.
  set(pattern "[ \t]-(fmad|Xfatbin|split-compile|t)(=[^ \t]*| [0-9]+)")
else()
  set(pattern "[ \t]-(O|m|f|pthread)[^ \t`']*")
endif()
string(REGEX MATCHALL "${pattern}" words "${command}")
foreach(word IN LISTS words)
  string(STRIP "${word}" word)
  list(APPEND flags ${word})
endforeach()
list(REMOVE_DUPLICATES flags)
list(JOIN flags "\n" flags)
file(WRITE ${OUTPUT} "${flags}\n")

file(STRINGS ${HEADER} inside REGEX "_WEIGHTS_FILE NULL$")
if(inside OR NOT EXISTS ${WEIGHTS})
  file(WRITE ${WEIGHTS} "")
endif()
