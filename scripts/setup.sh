#!/usr/bin/env bash
# Installs what Shoal is built with, and only what is missing: Debian packages, LibTorch (from the torch wheel),
# the sources of the Atari emulator, and MuJoCo with Gymnasium's models (from their wheels). Run again, it changes nothing and takes well under a second.
# Arguments name further Debian packages that are needed, e.g. clang.
#
#   SHOAL_DEPS       where LibTorch, the emulator and MuJoCo go (default ~/.cache/shoal); survives a fresh clone
#   SHOAL_TORCH_DIR  <site-packages>/torch of an installed torch to use instead
#   PYTHON           the interpreter that makes the virtual environment (default python3)
#
# Exit status: 2 if something is missing that may not be installed here, 1 if an installation failed.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
export PYTHON="${PYTHON:-python3}"

required=(ca-certificates cmake g++ git libboost-dev libcairo2-dev libcli11-dev libgif-dev libgmock-dev libgtest-dev
  libprotozero-dev libtomlplusplus-dev make ninja-build nlohmann-json3-dev zlib1g-dev "$@")
python_packages=(python3 python3-pip python3-venv)
# A faster build, environments written in Python, jobs that communicate by MPI; it works without.
optional=(ccache libopenmpi-dev openmpi-bin python3-dev)

# missing NAME...: those that are not installed.
missing() {
  comm -23 <(printf '%s\n' "$@" | sort) \
    <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' | sort -u)
}

# quietly LABEL COMMAND...: runs it, shows its output only if it fails.
quietly() (
  label=$1
  shift
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! "$@" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    fail 1 "$label failed; the end of its output is above"
  fi
)

install_packages() {
  local as_root=() start=$SECONDS
  if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  echo "packages: installing $* (about a minute)"
  quietly "apt-get update" "${as_root[@]}" apt-get update -q
  quietly "apt-get install" "${as_root[@]}" apt-get install -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout=120 "$@"
  echo "packages: installed in $(duration $((SECONDS - start)))"
}

setup_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "packages: not a Debian system; these must be there under its own names (docs/installation.md has Fedora's):" \
      "${required[*]} ${python_packages[*]}"
    return
  fi
  local needed helpful
  mapfile -t needed < <(missing "${required[@]}" "${python_packages[@]}")
  mapfile -t helpful < <(missing "${optional[@]}")
  # A python of the user's own (pyenv, conda) brings venv and pip without Debian's packages.
  if [[ " ${needed[*]} " == *" python3"* ]] && "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    mapfile -t needed < <(missing "${required[@]}")
  fi
  if [ $((${#needed[@]} + ${#helpful[@]})) -eq 0 ]; then
    echo "packages: all present"
  elif [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; then
    # The wheels come from another place than the packages, and need none of them if there is a venv.
    if "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
      set -m  # a process group of its own, so that pip can be ended with it
      setup_torch &
      torch_setup=$!
      set +m
      trap 'kill -- "-$torch_setup" 2>/dev/null || true' EXIT
    fi
    install_packages "${needed[@]}" "${helpful[@]}"
  elif [ ${#needed[@]} -gt 0 ]; then
    fail 2 "missing packages: ${needed[*]}" \
      "Installing them needs root or sudo without a password, and this user has neither. As root, run:" \
      "  apt-get update && apt-get install --no-install-recommends ${needed[*]} ${helpful[*]}"
  else
    echo "packages: all present (${helpful[*]} would help, but this user may not install them)"
  fi
}

require_space() {  # require_space GIGABYTES FOLDER
  local free
  free=$(df -Pk "$2" | awk 'NR == 2 {print int($4 / 1000000)}')
  [ "$free" -ge "$1" ] || fail 2 "LibTorch needs $1 GB below $2, which has $free GB left" \
    "Free some, or set SHOAL_DEPS to a folder with more room."
}

install_torch() {
  require_space 6 "$SHOAL_DEPS"
  local start=$SECONDS
  if [ -e "$torch_venv" ]; then echo "LibTorch: removing an unfinished installation in $torch_venv"; fi
  echo "LibTorch: installing torch $torch_version into $torch_venv (4.6 GB, one to two minutes on a fast line)"
  rm -rf "$torch_venv"
  quietly "$PYTHON -m venv" "$PYTHON" -m venv "$torch_venv"
  quietly "pip install torch==$torch_version" "$torch_venv/bin/python" -m pip install --no-cache-dir --no-compile \
    --disable-pip-version-check "torch==$torch_version"
  [ -n "$(torch_dir)" ] || fail 1 "pip reported success, but $torch_venv holds no torch $torch_version"
  echo "LibTorch: installed in $(duration $((SECONDS - start)))"
}

setup_torch() {
  if [ -n "${SHOAL_TORCH_DIR:-}" ] && [ ! -f "$SHOAL_TORCH_DIR/lib/libtorch_cpu.so" ]; then
    fail 2 "SHOAL_TORCH_DIR is $SHOAL_TORCH_DIR, but that has no lib/libtorch_cpu.so" \
      "It must be the torch folder of an installed torch $torch_version wheel; unset it to have one installed."
  fi
  if [ -z "$(torch_dir)" ]; then
    # Two clones set up at once must not write into one environment; the second finds it made.
    { mkdir -p "$SHOAL_DEPS" && exec 9>"$SHOAL_DEPS/.lock"; } 2>/dev/null ||
      fail 2 "cannot write to $SHOAL_DEPS; set SHOAL_DEPS to a folder that can be written"
    if ! flock -n 9; then
      echo "LibTorch: waiting for another set-up that is installing it"
      flock 9
    fi
    if [ -z "$(torch_dir)" ]; then install_torch; fi
    exec 9>&-
  fi
  echo "LibTorch: $(torch_dir)"
}

setup_ale() {
  [ -f "$ale_dir/CMakeLists.txt" ] || echo "Atari emulator: fetching its sources (12 MB, a few seconds)"
  "$root/scripts/fetch_ale.sh" "$ale_dir" || fail 1 "the Atari emulator's sources could not be fetched"
  echo "Atari emulator: $ale_dir"
}

setup_mujoco() {
  [ -f "$mujoco_dir/models/half_cheetah.xml" ] || echo "MuJoCo: fetching it and Gymnasium's models (7 MB, a few seconds)"
  "$root/scripts/fetch_mujoco.sh" "$mujoco_dir" || fail 1 "MuJoCo could not be fetched"
  echo "MuJoCo: $mujoco_dir"
}

torch_setup=
setup_packages
if [ -n "$torch_setup" ]; then
  wait "$torch_setup"
  trap - EXIT
else
  setup_torch
fi
setup_ale
setup_mujoco
