#!/usr/bin/env bash
# random_programs_test.sh PROGRAM PROGRAM_OF_ALE COUNT: both print the same for COUNT random programs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/a" "$folder/b"
"$1" "$folder/a" 1 "$3" >"$folder/found"
"$2" "$folder/b" 1 "$3" >"$folder/expected"
[ "$(wc -l <"$folder/expected")" = "$3" ]
diff "$folder/expected" "$folder/found"
