#!/usr/bin/env bash
# Builds schedules.cu and what times it: bench/cuda/decode_attention/schedules.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
flags=(-std=c++17 -O3 -diag-suppress 177 -arch=sm_90a "-I$here/../../../runtime" "-I$here")
printf '%s\n' 0 1 2 3 4 5 | xargs -P "${JOBS:-2}" -I{} "${NVCC:-nvcc}" "${flags[@]}" -DPART={} -c "$here/schedules.cu" -o "$1/part{}.o"
"${NVCC:-nvcc}" "${flags[@]}" "$here/schedules_main.cu" "$1"/part*.o -o "$1/schedules"
