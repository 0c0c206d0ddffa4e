#!/usr/bin/env bash
# test.sh PRESET...: builds and runs the tests of these presets but those labelled slow or gpu: all of release, core, ipc and
# envs under ThreadSanitizer (tsan), and core, ipc, envs, replays and samplers under AddressSanitizer and
# UndefinedBehaviorSanitizer (asan). One ctest runs them all, so that the last lines count everything.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"
start=$SECONDS

# Tests read event files, ONNX models and safetensors, play environments of Gymnasium, those of MuJoCo among them, and
# pack and type-check the Python package. With a LibTorch of the user's own there is no such virtual environment, and no
# such tests.
python=$torch_venv/bin/python
modules='auditwheel, gymnasium.envs.mujoco, mypy, onnxruntime, ruff, safetensors, scikit_build_core, tensorboard'
if [ -x "$python" ] && ! "$python" -c "import $modules" 2>/dev/null; then
  mapfile -t packages < <("$python" -c 'import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["test"], sep="\n")')
  "$python" -m pip install --quiet --disable-pip-version-check "${packages[@]}" ||
    echo "packages for tests cannot be installed: the tests that use them are skipped (${packages[*]})"
fi

[ $# -gt 0 ] || fail 2 "test.sh: found no preset, expected release, tsan, asan or clang"

# The test folders of each preset; release has all of them. clang also builds the command.
declare -A folders=([release]="" [tsan]="core ipc envs" [asan]="core ipc envs replays samplers"
  [clang]="core ipc envs data distributed replays fuzz")
presets=("$@")
for preset in "${presets[@]}"; do
  targets=()
  for folder in ${folders[$preset]}; do targets+=("tests/$folder/all"); done
  if [ "$preset" = clang ]; then targets+=(shoal); fi
  "$root/scripts/build.sh" "$preset" ${targets[@]+"${targets[@]}"}
done
built=$SECONDS

# A test folder that holds no build of its own, only the folders of the others.
all=build/all-tests
mkdir -p "$all"
for preset in "${presets[@]}"; do
  if [ "$preset" = release ]; then echo "subdirs(\"$root/build/release\")"; fi
  for folder in ${folders[$preset]}; do echo "subdirs(\"$root/build/$preset/tests/$folder\")"; done
done >"$all/CTestTestfile.cmake"

for preset in "${presets[@]}"; do
  ctest --test-dir "build/$preset" -N | grep -q '^Total Tests: [1-9]' || fail 1 "build/$preset holds no tests"
done

# LibTorch is not instrumented, and keeps what it allocates at load until the end.
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
prefix=()  # of the sanitizers of GCC 12, which need a fixed address space
if setarch -R true 2>/dev/null; then prefix=(setarch -R); fi
echo "building took $(duration $((built - start))); running the tests"
${prefix[@]+"${prefix[@]}"} ctest --test-dir "$all" -j "$(nproc)" -LE '^(slow|gpu)$' --output-on-failure --no-tests=error
