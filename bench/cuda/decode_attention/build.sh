#!/bin/bash
# Builds the study of decoding attention into FOLDER (default: build/study): libdecode.so, for times.py, and
# check_decode.
set -e
here="$(cd "$(dirname "$0")" && pwd)"
root="$here/../../.."
out="${1:-$root/build/study}"
mkdir -p "$out/decode"
flags=(-std=c++17 -O3 -gencode "arch=compute_90a,code=sm_90a" -I "$root/runtime" -I "$here"
       -Xcompiler -fPIC -Xptxas -v)
nvcc "${flags[@]}" -c "$here/variants.cu" -o "$out/decode/variants.o" > "$out/decode/variants.log" 2>&1
nvcc "${flags[@]}" -c "$here/check.cu" -o "$out/decode/check.o" > "$out/decode/check.log" 2>&1
nvcc -cudart static -shared -o "$out/libdecode.so" "$out/decode/variants.o"
nvcc -cudart static -o "$out/check_decode" "$out/decode/check.o" "$out/decode/variants.o"
grep -hE "spill" "$out/decode/variants.log" | sort | uniq -c | grep -v " 0 bytes spill stores" | head -20 || true
