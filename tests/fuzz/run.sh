#!/bin/bash
# Looks for inputs that break what reads bytes from outside, with libFuzzer:
#
#   tests/fuzz/run.sh SECONDS [TARGET...]    by default all of tests/fuzz/corpus
#
# As many targets at once as there are processors. Inputs of interest are kept
# in ~/.cache/sluice/fuzz/TARGET, where the next run goes on. One that breaks
# its target lies in ~/.cache/sluice/fuzz as TARGET-crash-...; it goes into the
# corpus together with the fix.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
if ! [[ ${1:-} =~ ^[0-9]+$ ]]; then
  sed -n '2,9s/^# \{0,1\}//p' tests/fuzz/run.sh >&2
  exit 2
fi
readonly EACH=$1
readonly KEPT=$HOME/.cache/sluice/fuzz
shift
targets=("$@")
if ((${#targets[@]} == 0)); then
  mapfile -t targets < <(ls tests/fuzz/corpus)
fi
mkdir -p "${targets[@]/#/$KEPT/}"

names=("${targets[@]/#///tests/fuzz:}")
./sluice build --config=fuzz "${names[@]/%/_fuzz}"
# Another build may turn bazel-bin elsewhere meanwhile.
BINARIES=$(readlink -f bazel-bin)/tests/fuzz
readonly BINARIES

# The words of a job, so that the fuzzer need not guess them.
grep -v '^ *//' proto/job.proto | grep -oE '[A-Za-z_]{2,}' | sort -u |
  sed 's/.*/"&"/' >"$KEPT/job.dict"

# Runs one target; its last lines are its figures, or what it found.
run_one() {
  local target=$1 status=0 more=()
  [[ $target != job ]] || more=(configs "-dict=$KEPT/job.dict")
  # A file's header may claim any size; memory must follow what is there.
  ASAN_OPTIONS=quarantine_size_mb=64 \
    "$BINARIES/${target}_fuzz" "-max_total_time=$EACH" -timeout=10 \
    -rss_limit_mb=1024 -malloc_limit_mb=256 -max_len=4096 \
    -print_final_stats=1 "-artifact_prefix=$KEPT/$target-" \
    "$KEPT/$target" "tests/fuzz/corpus/$target" "${more[@]}" \
    >"$KEPT/$target.log" 2>&1 || status=$?
  if ((status != 0)); then
    printf '%s: FOUND something:\n%s\n' "$target" \
      "$(grep -vE '^(#|NEW_FUNC)' "$KEPT/$target.log" | tail -n 60)"
    return 1
  fi
  printf '%s: %s inputs run, nothing found\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$KEPT/$target.log")"
}

failed=0
for ((i = 0; i < ${#targets[@]}; i += $(nproc))); do
  running=()
  for target in "${targets[@]:i:$(nproc)}"; do
    run_one "$target" &
    running+=($!)
  done
  for pid in "${running[@]}"; do wait "$pid" || failed=1; done
done
exit "$failed"
