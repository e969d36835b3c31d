#!/bin/bash
# Compares the manifests of this folder with Kubernetes' own schemas, which
# kubernetes-validate (PyPI) brings along. JobSet and PodMonitor are not
# Kubernetes' own: it has no schema for them, and they are left out.
#
#   deploy/kubernetes/validate.sh [FOLDER]
#
# FOLDER gets a virtual environment, 0.4 GB; without it a new one that is
# removed.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
folder=${1:-$(mktemp -d)}
[[ -n ${1:-} ]] || trap 'rm -rf "$folder"' EXIT
[[ -x $folder/bin/python3 ]] || python3 -m venv "$folder"
"$folder/bin/pip" install --quiet kubernetes-validate==1.37.0
"$folder/bin/python3" - "$here"/*.yaml <<'PYTHON'
import sys
import kubernetes_validate
import yaml

# The first release in which podFailurePolicy is stable, and the newest.
RELEASES = ["1.31", "1.37"]
for name in sys.argv[1:]:
    checked = left_out = 0
    for item in yaml.safe_load_all(open(name)):
        if item["kind"] in ("JobSet", "PodMonitor"):
            left_out += 1
            # What a JobSet holds are Jobs.
            for job in item["spec"].get("replicatedJobs", []):
                inner = {"apiVersion": "batch/v1", "kind": "Job",
                         "metadata": {"name": job["name"]},
                         "spec": job["template"]["spec"]}
                for release in RELEASES:
                    kubernetes_validate.validate(inner, release, strict=True)
            continue
        for release in RELEASES:
            kubernetes_validate.validate(item, release, strict=True)
        checked += 1
    print(f"{name}: {checked} objects as {' and '.join(RELEASES)} want them, "
          f"{left_out} without a schema")
PYTHON
