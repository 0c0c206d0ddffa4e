#!/usr/bin/env bash
# tidy.sh: runs clang-tidy on every source file; every finding is an error. Builds nothing: build/tidy holds only the
# compilers' commands, without precompiled headers, which clang cannot read. What is compiled as one file is looked at as
# one: most of the time goes into torch's headers.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

scripts/build.sh tidy build.ninja >/dev/null
status=0
# tidy FOLDERS [OPTION...]: the sources below these folders, and the files made of them.
tidy() {
  run-clang-tidy -quiet -p build/tidy -j "$(nproc)" "${@:2}" "$root/(build/tidy/)?($1)/" || status=1
}
tidy 'src|plugins|samplers|algos|runners|cli|python|benchmarks|examples'
tidy tests -config "$(cat tests/.clang-tidy)"  # those made of tests lie beyond it
exit "$status"
