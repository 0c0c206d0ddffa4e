#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures build/PRESET if that is needed, builds, and tells how long it took.
# JOBS bounds the number of compilers; CMAKE_ARGS are further options of CMake, which later builds keep.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

preset=$1
shift
dir=build/$preset
start=$SECONDS

torch=$(torch_dir)
[ -n "$torch" ] || fail 2 "LibTorch is not installed" "Run \`make setup\`."
read -ra options <<<"${CMAKE_ARGS:-}"
settings=("-DSHOAL_TORCH_DIR=$torch" "-DSHOAL_DEPS=$SHOAL_DEPS" ${options[@]+"${options[@]}"})

# Ninja runs CMake again when a CMakeLists.txt changes; what it does not see is another preset or another LibTorch.
stamp=$dir/.configured
if [ ! -f "$dir/build.ninja" ] || [ CMakePresets.json -nt "$stamp" ] || [ "${settings[*]}" != "$(cat "$stamp" 2>/dev/null)" ]; then
  mkdir -p "$dir"
  echo "$preset: configuring"
  rm -f "$stamp"  # a configuration that fails is tried again
  # What a failed first try found (no compiler, say) must not outlive its cause.
  fresh=()
  if [ ! -f "$dir/build.ninja" ]; then fresh=(--fresh); fi
  cmake --preset "$preset" ${fresh[@]+"${fresh[@]}"} "${settings[@]}" >"$dir/configure.log" 2>&1 || {
    cat "$dir/configure.log" >&2
    fail 1 "CMake failed for the preset $preset"
  }
  echo "${settings[*]}" >"$stamp"
fi

jobs=$(build_jobs)
# What the first build takes was measured in CPU seconds; more than 8 jobs wait for the longest files.
cpu=0
if [ ! -f "$dir/.ninja_log" ]; then
  case "$preset $*" in
    "release shoal") cpu=420 ;;
    "release shoal_command") cpu=540 ;;
    "release ") cpu=1100 ;;
  esac
fi
if [ "$cpu" -gt 0 ]; then
  minutes=$(((cpu / (jobs < 8 ? jobs : 8) + 59) / 60))
  echo "$preset: building ${*:-everything} with $jobs jobs: about $minutes min"
else
  echo "$preset: building ${*:-everything} with $jobs jobs"
fi
NINJA_STATUS="[%f/%t %es] " ninja -C "$dir" -j "$jobs" "$@" ||
  fail 1 "building $preset failed after $(duration $((SECONDS - start))); the first error is above"
echo "$preset: built in $(duration $((SECONDS - start)))"
