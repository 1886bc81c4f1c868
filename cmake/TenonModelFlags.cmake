# Run by `cmake -P`: writes to OUTPUT the compiler flags that the head of the generated
# file SOURCE asks for, such as -O2, -march=..., -mavx2 or -ffp-contract=off. They are
# known only once the model has been compiled: cpu:native becomes a named level then.

# The first line is the build command. Those below name the model and Tenon's own options, whose
# -O1 is not the compiler's.
file(STRINGS ${SOURCE} command LIMIT_COUNT 1)
set(flags "")
string(REGEX MATCHALL "[ \t]-(O|m|f|pthread)[^ \t`']*" words "${command}")
foreach(word IN LISTS words)
  string(STRIP "${word}" word)
  list(APPEND flags ${word})
endforeach()
list(REMOVE_DUPLICATES flags)
list(JOIN flags "\n" flags)
file(WRITE ${OUTPUT} "${flags}\n")
