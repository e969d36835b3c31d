#!/bin/bash
# Runs the tests of PyTorch models with the newest PyTorch of PyPI instead of
# Debian's: tests/torch_of_pypi.sh FOLDER. The first time it makes a virtual
# environment there, of about 5 GB.
set -euo pipefail
environment=$(realpath -m "${1:?expected the folder of a virtual environment}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ! -x $environment/bin/pip ]]; then
  /usr/bin/python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet torch numpy
fi
tests=(join_test torch_loading_test torch_local_steps_test torch_loop_test
  torch_memory_test torch_optimizer_test torch_test torch_types_test
  torch_faults_test)
./sluice build "${tests[@]/#///tests/process:}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in "${tests[@]}"; do
  SLUICE_WITH=torch TEST_SRCDIR="$PWD/bazel-bin/tests/process/$name.runfiles" \
    TEST_WORKSPACE=sluice TEST_TMPDIR="$folder" \
    "$environment/bin/python3" -B "bazel-bin/tests/process/$name"
done
