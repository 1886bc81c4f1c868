# Sourced by the other scripts: where the project's own tools are.
#
# Puts the virtual environment's python3 and an nvcc of CUDA 13 (the machine's,
# or the one that scripts/setup fetched) at the front of PATH, and a fetched
# cuobjdump at its end.

TENON_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export TENON_ROOT

# Prints the folder of the first nvcc of CUDA 13 or newer; fails when there is none.
tenon_find_nvcc() {
  local candidate release
  for candidate in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc \
                   "$TENON_ROOT/.cuda/bin/nvcc"; do
    [ -x "$candidate" ] || continue
    release="$("$candidate" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p')"
    if [ "${release:-0}" -ge 13 ]; then
      dirname "$candidate"
      return 0
    fi
  done
  return 1
}

# Prints the folder of the first cuobjdump; fails when there is none.
tenon_find_cuobjdump() {
  local candidate
  for candidate in "$(command -v cuobjdump || true)" /usr/local/cuda/bin/cuobjdump \
                   "$TENON_ROOT/.cuobjdump/bin/cuobjdump"; do
    if [ -x "$candidate" ] && "$candidate" --version >/dev/null 2>&1; then
      dirname "$candidate"
      return 0
    fi
  done
  return 1
}

tenon_enter_env() {
  local folder
  if folder="$(tenon_find_nvcc)"; then
    PATH="$folder:$PATH"
  fi
  if folder="$(tenon_find_cuobjdump)"; then
    PATH="$PATH:$folder"
  fi
  [ -d "$TENON_ROOT/.venv/bin" ] && PATH="$TENON_ROOT/.venv/bin:$PATH"
  export PATH
}

# Prints how many build jobs to run: TENON_JOBS, or this machine's cores, at most one
# per 2 GiB of free memory.
tenon_jobs() {
  local cores memory
  if [ -n "${TENON_JOBS:-}" ]; then
    echo "$TENON_JOBS"
    return
  fi
  cores="$(nproc)"
  memory="$(awk '/^MemAvailable/ {print int($2 / 2097152)}' /proc/meminfo 2>/dev/null)"
  [ "${memory:-0}" -ge 1 ] && [ "$memory" -lt "$cores" ] && cores="$memory"
  echo "$cores"
}

# Prints the build folder of a CMake preset.
tenon_build_folder() {
  case "$1" in
    release) echo build ;;
    *) echo "build-$1" ;;
  esac
}

# tenon_configure PRESET [-DVAR:TYPE=VALUE...]: configures the preset's build folder,
# unless it is configured with these values already.
tenon_configure() {
  local preset="$1" folder setting fresh=1
  shift
  folder="$(tenon_build_folder "$preset")"
  for setting in "$@"; do
    grep -qxF -- "${setting#-D}" "$folder/CMakeCache.txt" 2>/dev/null || fresh=0
  done
  if [ "$fresh" = 1 ] && [ -e "$folder/build.ninja" ]; then
    return 0
  fi
  echo "configuring $folder"
  mkdir -p "$folder"
  if ! cmake --preset "$preset" "$@" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    return 1
  fi
}

# tenon_build PRESET [TARGET...]: builds in a configured folder; silent when there is
# nothing to do. The caller has set pipefail.
tenon_build() {
  local folder
  folder="$(tenon_build_folder "$1")"
  shift
  # Left out are the lines of a build that is up to date.
  NINJA_STATUS="[$folder %f/%t] " ninja -C "$folder" -j "$(tenon_jobs)" "$@" |
    sed -u -e '/^ninja: Entering directory/d' -e '/^ninja: no work to do/d' \
      -e '/Re-checking globbed directories/d'
}
