#!/usr/bin/env bash
# tidy.sh REGEX: runs clang-tidy on the source files that match; every finding is an error. Builds nothing: build/tidy
# holds only the compilers' commands, without precompiled headers, which clang cannot read.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

scripts/build.sh tidy build.ninja >/dev/null
exec run-clang-tidy -quiet -p build/tidy -j "$(nproc)" "$1"
