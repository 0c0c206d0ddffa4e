#!/usr/bin/env bash
# command_test.sh SOURCE BUILD: `make run` builds the command, and the plugins that were configured if it may need one,
# and nothing else.
set -euo pipefail
source=$1 build=$2
builds() {  # builds TARGET [VARIABLE=value]: `make run` builds this target
  local commands  # read whole: grep -q would end a pipe before make has written all of them
  commands=$(make -s -n -C "$source" run "${@:2}")
  grep -q "build.sh release $1\$" <<<"$commands" || { echo "make run ${*:2} does not build $1"; exit 1; }
}
builds shoal_command PRESET=pong-ppo
builds shoal_command PRESET=half-cheetah-sac
if [ ! -e /dev/nvidiactl ]; then builds shoal PRESET=cartpole-ppo; fi
if ninja -C "$build" -t inputs shoal | grep '^plugins/'; then
  echo "the plugins above are built for presets that need none"
  exit 1
fi

inputs=$(ninja -C "$build" -t inputs shoal_command)
if ninja -C "$build" -t targets all | grep -o '^plugins/[^:]*\.o' | grep -vxFf <(echo "$inputs"); then
  echo "the plugins' files above are not built for make run, which may need them"
  exit 1
fi
grep -q '^cli/.*/main.cc.o$' <<<"$inputs" || { echo "not built: the command"; exit 1; }
# The precompiled header takes 40 s, and serves tests.
if grep -E '_test|examples/|benchmarks/|tests/|cmake_pch' <<<"$inputs"; then
  echo "the files above are built for make run, which does not need them"
  exit 1
fi
