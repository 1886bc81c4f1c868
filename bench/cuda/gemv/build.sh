#!/bin/bash
# Builds the study of few rows into FOLDER (default: build/study): libgemv.so, for times.py, and
# check_gemv. JOBS compilers at a time.
set -e
here="$(cd "$(dirname "$0")" && pwd)"
root="$here/../../.."
out="${1:-$root/build/study}"
mkdir -p "$out/gemv"
flags=(-std=c++17 -O3 -gencode "arch=compute_90a,code=sm_90a" -I "$root/runtime" -I "$here"
       -Xcompiler -fPIC -Xptxas -v)
printf '%s\n' 0 1 2 | xargs -P "${JOBS:-2}" -I{} sh -c \
  "nvcc ${flags[*]} -DPART={} -c '$here/variants.cu' -o '$out/gemv/part{}.o' > '$out/gemv/part{}.log' 2>&1"
nvcc "${flags[@]}" -c "$here/check.cu" -o "$out/gemv/check.o" > "$out/gemv/check.log" 2>&1
nvcc -cudart static -shared -o "$out/libgemv.so" "$out"/gemv/part*.o
nvcc -cudart static -o "$out/check_gemv" "$out/gemv/check.o" "$out"/gemv/part*.o
grep -hE "spill" "$out"/gemv/part*.log | sort | uniq -c | grep -v " 0 bytes spill stores" | head -20 || true
