#!/usr/bin/env bash
# install_test.sh package|fetched SOURCE BUILD: whether other projects can use Shoal, installed or fetched.
set -euo pipefail
kind=$1 source=$2 build=$3
tests=$source/tests/install
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

settings=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
grep -q '^CMAKE_GENERATOR:INTERNAL=Ninja$' "$build/CMakeCache.txt" && settings+=(-G Ninja)

# build FOLDER [SETTING...]: configures and builds one of the projects beside this script.
build() {
  cmake -S "$tests/$1" -B "$work/$1" "${settings[@]}" "${@:2}" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  cmake --build "$work/$1" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  ! grep -i 'warning' "$work/log"
}

package() {
  local installed=$work/prefix
  cmake --install "$build" --prefix "$installed" >/dev/null
  diff -r "$source/include/shoal" "$installed/include/shoal"
  if find "$installed" -name 'shoal_ale*' | grep .; then
    echo "the GPL plugin was installed, and nobody asked for it"
    exit 1
  fi
  if readelf -d "$installed/bin/shoal" | grep -F "$build"; then
    echo "the run path above is that of the installed command: it loads plugins of the build"
    exit 1
  fi
  "$installed/bin/shoal" train cartpole-ppo --steps 4096 --quiet --out "$work/run"
  diff -r "$source/results/zoo" "$installed/share/shoal/zoo"
  "$installed/bin/shoal" eval zoo:cartpole-ppo --episodes 1

  build outside -DCMAKE_PREFIX_PATH="$installed" -DEXAMPLES="$source/examples"
  # torch's modules and all of its operators take over 10 s to read: a program that only uses Shoal does not see them.
  local compile
  compile=$(sed -n 's/^ *"command": "\(.*\)",$/\1/p' "$work/outside/compile_commands.json" | grep 2_cartpole_parallel)
  (cd "$work/outside" && eval "${compile%% -o *} -M -MF $work/included ${compile##* -c }")
  grep -q 'ATen/core/Tensor.h' "$work/included"
  if grep -E 'torch/nn/module.h|ATen/Functions.h' "$work/included"; then
    echo "a program that uses no module of torch reads the headers above"
    exit 1
  fi
  "$work/outside/own_runner" 6000 "$work/own-run"
  "$work/outside/own_parts" train cartpole-ppo --set env.id=ShortPole-v0 --set model.name=linear --set algo=reinforce \
    --steps 6000 --quiet --out "$work/own-parts"
  # A linked program finds the plugins of the installation that it was linked with.
  if [ -e "$installed/lib/shoal_mujoco.so" ]; then
    "$work/outside/own_parts" list envs >"$work/envs"
    grep -q 'Hopper-v5' "$work/envs"
    if readelf -d "$work/outside/own_parts" | grep -F "$build"; then
      echo "a program linked with the installation looks for libraries in the build folder"
      exit 1
    fi
  fi
  "$work/outside/own_parts" eval "$work/own-parts" --episodes 3
}

fetched() {
  build fetched -DSHOAL_SOURCE="$source" -DSHOAL_TORCH_DIR="$(sed -n 's/^SHOAL_TORCH_DIR:PATH=//p' "$build/CMakeCache.txt")"
  "$work/fetched/fall"
}

"$kind"
