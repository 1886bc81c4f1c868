# Run by `cmake -P`: writes to OUTPUT the compiler flags that the head of the generated
# file SOURCE asks for, such as -O2, -march=..., -mavx2 or -ffp-contract=off. They are
# known only once the model has been compiled: cpu:native becomes a named level then.

file(STRINGS ${SOURCE} lines LIMIT_COUNT 64)
set(flags "")
foreach(line IN LISTS lines)
  if(NOT line MATCHES "^//")
    break()
  endif()
  string(REGEX MATCHALL "[ \t]-(O|m|f|pthread)[^ \t`']*" words "${line}")
  foreach(word IN LISTS words)
    string(STRIP "${word}" word)
    list(APPEND flags ${word})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES flags)
list(JOIN flags "\n" flags)
file(WRITE ${OUTPUT} "${flags}\n")
