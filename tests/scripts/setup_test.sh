#!/usr/bin/env bash
# Runs scripts/setup.sh against a machine made of stand-ins: nothing is installed and no network is used.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

stand_in() {  # stand_in NAME SCRIPT: a command of that name that notes its call, then runs SCRIPT
  printf '#!/bin/bash\necho "%s $*" >>"%s/calls"\n%s\n' "$1" "$work" "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

fresh_machine() {  # every package installed, no LibTorch, the emulator's sources and MuJoCo there, a user without rights
  rm -rf "${work:?}/bin" "${work:?}/deps" "${work:?}/calls"
  mkdir -p "$work/bin" "$work/deps/ale-0.12.1" "$work/deps/mujoco-3.3.7/models" "$work/tmp"
  touch "$work/calls" "$work/deps/ale-0.12.1/CMakeLists.txt" "$work/deps/mujoco-3.3.7/models/half_cheetah.xml" "$work/absent"
  : >"$work/absent"
  stand_in dpkg-query "shift 2; for p; do grep -qx \"\$p\" '$work/absent' || echo \"installed \$p\"; done"
  stand_in id "echo 1000"
  stand_in sudo "exit 1"
  stand_in apt-get ": >'$work/absent'"
  stand_in df "echo header; echo x x x \${FREE_KB:-90000000} x x"
  # "$python -m venv DIR" makes an interpreter whose pip puts a torch there.
  cat >"$work/pip" <<'PIP'
site=$(dirname "$0")/../lib/python3.11/site-packages
mkdir -p "$site/torch/lib" "$site/torch-2.11.0.dist-info"
[ -n "${SLOW:-}" ] && sleep "$SLOW"
touch "$site/torch/lib/libtorch_cpu.so"
[ -n "${INTERRUPT:-}" ] && exit 1
touch "$site/torch-2.11.0.dist-info/INSTALLER"
PIP
  stand_in python3 "[ \"\$1\" = -c ] && exit \${NO_VENV:-1}
mkdir -p \"\$3/bin\"; { echo '#!/bin/bash'; echo 'echo pip \"\$@\" >>\"$work/calls\"'; cat '$work/pip'; } >\"\$3/bin/python\"
chmod +x \"\$3/bin/python\""
}

further=()  # packages, as arguments of setup.sh
setup() {  # setup [VARIABLE=value...]: output in $out, exit status in $status
  status=0
  out=$(env -u SHOAL_TORCH_DIR -u PYTHON PATH="$work/bin:$PATH" TMPDIR="$work/tmp" SHOAL_DEPS="$work/deps" "$@" \
    "$root/scripts/setup.sh" ${further[@]+"${further[@]}"} 2>&1) || status=$?
}

check() {  # check WHAT COMMAND...
  local what=$1
  shift
  if ! "$@"; then
    failures=$((failures + 1))
    printf 'FAILED: %s\n--- status %s, output:\n%s\n--- calls:\n%s\n' "$what" "$status" "$out" "$(cat "$work/calls")"
  fi
}
says() { [[ $out == *"$1"* ]]; }
called() { grep -q -- "$1" "$work/calls"; }
not() { ! "$@"; }

fresh_machine
setup
check "an empty machine is set up" [ "$status" = 0 ]
check "torch is installed by name" called "pip -m pip install .*torch==2.11.0"
: >"$work/calls"
setup
check "a second run succeeds" [ "$status" = 0 ]
check "a second run does not call pip" not called "-m pip"
check "a second run does not call apt" not called "apt-get"

fresh_machine
echo ccache >"$work/absent"
setup
check "a package that only saves time is no reason to stop" [ "$status" = 0 ]
check "but it is named" says "ccache would help"
printf '%s\n' libboost-dev ninja-build >"$work/absent"
setup
check "missing packages without rights are a user's matter" [ "$status" = 2 ]
check "they are named" says "missing packages: libboost-dev ninja-build"
check "the command is given" says "apt-get install --no-install-recommends libboost-dev ninja-build"
check "nothing is tried" not called "apt-get"

stand_in id "echo 0"
setup
check "root installs" [ "$status" = 0 ]
check "only what is missing" called "apt-get install .*120 libboost-dev ninja-build$"
echo clang >"$work/absent"
: >"$work/calls"
setup
check "a further package is not installed unasked" not called "apt-get install"
further=(clang)
setup
further=()
check "an argument names a further package" called "apt-get install .*120 clang$"
stand_in apt-get "echo no such mirror; exit 100"
echo libboost-dev >"$work/absent"
setup
check "a failed installation is a failure" [ "$status" = 1 ]
check "its output is shown" says "no such mirror"

fresh_machine
stand_in id "echo 0"
stand_in apt-get "until grep -q 'pip -m pip' '$work/calls'; do sleep 0.02; done; exit 100"
echo libboost-dev >"$work/absent"
setup NO_VENV=0 SLOW=30
check "a failed installation is a failure beside a download, too" [ "$status" = 1 ]
check "which ends with it" [ ! -e "$work/deps/venv-torch-2.11.0/lib/python3.11/site-packages/torch-2.11.0.dist-info/INSTALLER" ]
check "and leaves the lock" flock -w 5 "$work/deps/.lock" true

fresh_machine
echo python3-venv >"$work/absent"
setup NO_VENV=0
check "a python with venv needs no package" [ "$status" = 0 ]
setup NO_VENV=1
check "one without does" [ "$status" = 2 ]

fresh_machine
setup INTERRUPT=1
check "an interrupted torch is a failure" [ "$status" = 1 ]
setup
check "and is made anew" says "removing an unfinished installation"
check "successfully" [ "$status" = 0 ]

fresh_machine
setup FREE_KB=1000000
check "a full disk is noticed before the download" [ "$status" = 2 ]
check "with both numbers" says "needs 6 GB"
check "and nothing is fetched" not called "-m pip"

fresh_machine
setup SHOAL_TORCH_DIR="$work/nowhere"
check "a wrong SHOAL_TORCH_DIR is a user's matter" [ "$status" = 2 ]
mkdir -p "$work/nowhere/lib"
touch "$work/nowhere/lib/libtorch_cpu.so"
setup SHOAL_TORCH_DIR="$work/nowhere"
check "a right one is used" says "LibTorch: $work/nowhere"
check "instead of an installation" not called "-m pip"

check "no temporary file is left" [ -z "$(ls "$work/tmp")" ]
[ "$failures" = 0 ] || exit 1
echo "setup_test: all checks passed"
