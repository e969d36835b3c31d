#!/bin/bash
# Analyses the locks: compiles, under clang, what names a mutex or what it
# guards, tests included, and of a header without a source all that use it (of a
# template only what somebody calls is analysed). -Wthread-safety is an error
# there. Nothing is optimised or linked; the rest of the tree has no lock to be
# analysed.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
./sluice install --config=clang
files=$(grep -rlE --include='*.cc' --include='*.h' --exclude-dir=third_party \
  'absl::(Mutex|ReaderMutex|WriterMutex)|ABSL_[A-Z_]*(LOCK|GUARDED)' . |
  sed 's#^\./##')
alone=$(for file in $files; do
  [[ $file == *.cc || -e ${file%.h}.cc ]] || echo "$file"
done)
targets=$(bazel query --noshow_progress "
  kind('cc_.* rule', rdeps(//..., set(${files//$'\n'/ }), 1)) +
  kind('cc_.* rule', rdeps(//..., set(${alone//$'\n'/ }), 2))")
# shellcheck disable=SC2086
./sluice build --config=clang --output_groups=compilation_outputs $targets
