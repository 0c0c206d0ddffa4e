#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET...]: builds the fuzzers with clang, ASan and UBSan, and runs each, or these, for so many seconds.
# Inputs that reach new code are kept in build/fuzz/corpus; the input of a finding lies in build/fuzz/findings.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"
seconds=$1
shift

"$root/scripts/build.sh" fuzz fuzz_targets
targets=("$@")
if [ $# = 0 ]; then mapfile -t targets < <(ls tests/fuzz/corpus); fi
declare -A words=([checkpoint]=json [weights]=json [settings]=toml [options]=toml [sweep]=toml)
found=()
trap 'exit 130' INT  # libFuzzer exits with a status of its own, as if it had found something
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target findings=build/fuzz/findings/$target
  # Leaks are not looked for: LibTorch keeps what it allocates.
  options=(-max_total_time="$seconds" -detect_leaks=0 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "-artifact_prefix=$findings-")
  if [ -n "${words[$target]:-}" ]; then options+=("-dict=tests/fuzz/${words[$target]}.dict"); fi
  mkdir -p "$corpus" build/fuzz/findings
  echo "fuzz: $target for $seconds s"
  "build/fuzz/bin/fuzz_$target" "${options[@]}" "$corpus" "tests/fuzz/corpus/$target" || found+=("$target")
done
[ ${#found[@]} = 0 ] || fail 1 "findings of ${found[*]}; their inputs are build/fuzz/findings/TARGET-*" \
  "Fix the code, and put the input into tests/fuzz/corpus/TARGET: a test reads it from then on."
echo "fuzz: no finding in ${#targets[@]} targets, $seconds s each"
