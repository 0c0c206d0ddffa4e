#!/usr/bin/env bash
# command_test.sh SOURCE BUILD: `make run` builds the command and the plugins that were configured, and nothing else.
set -euo pipefail
source=$1 build=$2
make -s -n -C "$source" run | grep -q 'build.sh release shoal_command$' ||
  { echo "make run does not build the target shoal_command"; exit 1; }

inputs=$(ninja -C "$build" -t inputs shoal_command)
for plugin in "$build"/plugins/*/; do
  grep -q "^plugins/$(basename "$plugin")/.*\.o$" <<<"$inputs" || { echo "not built: $plugin"; exit 1; }
done
grep -q '^cli/.*/main.cc.o$' <<<"$inputs" || { echo "not built: the command"; exit 1; }
# The precompiled header takes 40 s, and serves tests.
if grep -E '_test|examples/|benchmarks/|tests/|cmake_pch' <<<"$inputs"; then
  echo "the files above are built for make run, which does not need them"
  exit 1
fi
