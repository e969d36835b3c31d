#!/bin/bash
# Analyses the locks: compiles, under clang, what names a mutex and what uses
# that directly, tests included. -Wthread-safety is an error there. Nothing is
# optimised or linked; the rest of the tree has no lock to be analysed.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
./sluice install --config=clang
files=$(git grep -l absl/synchronization/mutex.h -- '*.cc' '*.h' ':!third_party' |
  sed -E 's#(.*)/#//\1:#')
# shellcheck disable=SC2086
mapfile -t targets < <(bazel query --noshow_progress \
  "kind('cc_.* rule', rdeps(//..., set(${files//$'\n'/ }), 2))")
./sluice build --config=clang --output_groups=compilation_outputs \
  "${targets[@]}"
