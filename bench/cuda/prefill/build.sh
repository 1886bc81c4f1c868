#!/bin/bash
# Builds the study of many rows times int4 weights into FOLDER (default: build/study): libnarrow.so, for
# times.py, and check_narrow.
set -e
here="$(cd "$(dirname "$0")" && pwd)"
root="$here/../../.."
out="${1:-$root/build/study}"
mkdir -p "$out/narrow"
flags=(-std=c++17 -O3 -gencode "arch=compute_90a,code=sm_90a" -I "$root/runtime" -I "$here"
       -Xcompiler -fPIC -Xptxas -v)
nvcc "${flags[@]}" -c "$here/variants.cu" -o "$out/narrow/variants.o" > "$out/narrow/variants.log" 2>&1 || cat "$out/narrow/variants.log"
nvcc "${flags[@]}" -c "$here/check.cu" -o "$out/narrow/check.o" > "$out/narrow/check.log" 2>&1 || cat "$out/narrow/check.log"
nvcc -cudart static -shared -o "$out/libnarrow.so" "$out/narrow/variants.o"
nvcc -cudart static -o "$out/check_narrow" "$out/narrow/check.o" "$out/narrow/variants.o"
grep -hE "spill|C75|warning" "$out/narrow/variants.log" | sort | uniq -c | grep -v " 0 bytes spill stores" | head -20 || true
