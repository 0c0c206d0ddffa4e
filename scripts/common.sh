# Sourced by the other scripts: paths, messages, and the number of parallel jobs.
# shellcheck shell=bash disable=SC2034
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export HOME="${HOME:-$(cd ~ && pwd)}"
export SHOAL_DEPS="${SHOAL_DEPS:-$HOME/.cache/shoal}"

torch_version=2.11.0
torch_venv=$SHOAL_DEPS/venv-torch-$torch_version
ale_dir=$SHOAL_DEPS/ale-0.12.1
mujoco_dir=$SHOAL_DEPS/mujoco-3.3.7

# fail STATUS LINE...: 2 if the user can mend the cause, 1 if something failed while running.
fail() {
  local status=$1
  shift
  printf 'error: %s\n' "$1" >&2
  [ $# -lt 2 ] || printf '       %s\n' "${@:2}" >&2
  exit "$status"
}

# duration SECONDS: "48 s" or "3 min 12 s".
duration() {
  if [ "$1" -lt 60 ]; then echo "$1 s"; else echo "$(($1 / 60)) min $(($1 % 60)) s"; fi
}

# The `torch` folder of the wheel that is built against; empty if none is complete. pip writes INSTALLER after
# the last file of a wheel and installs what a wheel needs before it, so an interrupted installation has none.
torch_dir() {
  if [ -n "${SHOAL_TORCH_DIR:-}" ]; then
    echo "$SHOAL_TORCH_DIR"
    return
  fi
  local installer
  for installer in "$torch_venv"/lib/python3*/site-packages/torch-"$torch_version"*.dist-info/INSTALLER; do
    local dir=${installer%/*/INSTALLER}/torch
    if [ -f "$dir/lib/libtorch_cpu.so" ]; then
      echo "$dir"
      return
    fi
  done
}

# As many compilers as there are cores, but only one for every 2 GB of memory: a file that sees torch takes 1.3 to 2.
build_jobs() {
  if [ -n "${JOBS:-}" ]; then
    echo "$JOBS"
    return
  fi
  local cores kilobytes limit by_memory
  cores=$(nproc)
  kilobytes=$(awk '$1 == "MemAvailable:" {print $2}' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  if [ "$limit" != max ] && [ $((limit / 1024)) -lt "$kilobytes" ]; then kilobytes=$((limit / 1024)); fi
  by_memory=$((kilobytes / 2000000))
  if [ "$by_memory" -lt 1 ]; then by_memory=1; fi
  echo $((by_memory < cores ? by_memory : cores))
}
