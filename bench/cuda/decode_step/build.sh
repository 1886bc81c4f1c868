#!/bin/bash
# Builds the study of a decoder's step into FOLDER (default: build/study): libstep.so, for times.py, and
# check_step. JOBS compilers at a time.
set -e
here="$(cd "$(dirname "$0")" && pwd)"
root="$here/../../.."
out="${1:-$root/build/study}"
mkdir -p "$out/step"
flags=(-std=c++17 -O3 -gencode "arch=compute_90a,code=sm_90a" -I "$root/runtime" -I "$here" -I "$here/../gemv"
       -I "$here/../decode_attention" -Xcompiler -fPIC -Xptxas -v)
printf '%s\n' 0 2 9 | xargs -P "${JOBS:-2}" -I{} sh -c \
  "nvcc ${flags[*]} -DPART={} -c '$here/step.cu' -o '$out/step/part{}.o' > '$out/step/part{}.log' 2>&1 || cat '$out/step/part{}.log'"
nvcc "${flags[@]}" -c "$here/check.cu" -o "$out/step/check.o" > "$out/step/check.log" 2>&1 || cat "$out/step/check.log"
nvcc -cudart static -shared -o "$out/libstep.so" "$out"/step/part*.o
nvcc -cudart static -o "$out/check_step" "$out/step/check.o" "$out"/step/part*.o
grep -hE "spill" "$out"/step/part*.log | sort | uniq -c | grep -v " 0 bytes spill stores" | head -20 || true
