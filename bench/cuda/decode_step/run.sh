#!/bin/bash
# On a machine with an H100: builds the study where FOLDER (default: build/study) has no program that runs, checks it,
# checks small cases under compute-sanitizer, and times it. CSV and logs go to OUT (default: FOLDER).
here="$(cd "$(dirname "$0")" && pwd)"
folder="${1:-$here/../../../build/study}"
out="${OUT:-$folder}"
if ! ldd "$folder/check_step" > /dev/null 2>&1 || ! "$folder/check_step" 1 small > "$out/first.log" 2>&1; then
  tail -3 "$out/first.log"
  JOBS=16 "$here/build.sh" "$folder" || exit 1
fi
timeout 150 "$folder/check_step" 2>&1 | tail -20
for tool in memcheck racecheck; do
  timeout 300 compute-sanitizer --tool $tool "$folder/check_step" 5 small > "$out/$tool.log" 2>&1
  echo "$tool: $? $(tail -2 "$out/$tool.log" | tr '\n' ' ')"
done
PYTHONUNBUFFERED=1 timeout "${SECONDS_OF_TIMES:-300}" python3 "$here/times.py" "$folder/libstep.so" --csv="$out/h100.csv" "${@:2}" 2>&1 |
  grep -v Warning
