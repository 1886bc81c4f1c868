#!/bin/bash
# Builds what times.py measures into FOLDER (default: build/study): libattention.so. PARTS compilers share
# the variants, JOBS at a time.
set -e
here="$(cd "$(dirname "$0")" && pwd)"
root="$here/../../.."
out="${1:-$root/build/study}"
parts="${PARTS:-8}"
mkdir -p "$out/attention"
flags=(-std=c++17 -O1 -fmad=false -gencode "arch=compute_90a,code=sm_90a" -I "$root/runtime" -I "$here"
       -Xcompiler -fPIC -Xptxas -v)
seq 0 $((parts - 1)) | xargs -P "${JOBS:-2}" -I{} sh -c \
  "nvcc ${flags[*]} -DPARTS=$parts -DPART={} -c '$here/variants.cu' -o '$out/attention/part{}.o' > '$out/attention/part{}.log' 2>&1"
nvcc -cudart static -shared -o "$out/libattention.so" "$out"/attention/part*.o
grep -hE "spill|C75[0-9]+" "$out"/attention/part*.log | sort | uniq -c | grep -v " 0 bytes spill stores" | head -20 || true
