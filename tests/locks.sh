#!/bin/bash
# Analyses the locks: compiles, under clang, what names a mutex, tests included,
# and the libraries and programs that use that directly. -Wthread-safety is an
# error there. Nothing is optimised or linked; the rest of the tree has no lock
# to be analysed.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
./sluice install --config=clang
files=$(grep -rl --include='*.cc' --include='*.h' --exclude-dir=third_party \
  absl/synchronization/mutex.h . | sed -E 's#^\./(.*)/#//\1:#')
targets=$(bazel query --noshow_progress "let files = set(${files//$'\n'/ }) in
  kind('cc_.* rule', rdeps(//..., \$files, 1)) +
  kind('cc_(library|binary) rule', rdeps(//..., \$files, 2))")
# shellcheck disable=SC2086
./sluice build --config=clang --output_groups=compilation_outputs $targets
