#!/bin/bash
# Trains the demo's job in bare pods with `podman play kube`, kills a worker's
# and the lead's container, and checks how it ended. As root on Debian 12; three
# minutes on two idle cores.
#
#   ./sluice test --with=podman
#   deploy/kubernetes/try.sh [FOLDER]
#
# FOLDER (image, volume, logs; 1 GB) is kept, and its image taken again; without
# it a new one that is removed. The image is Debian's base with the packages of
# docker/Dockerfile and the programs of bazel-bin (`./sluice build` first).
# Ports 7000, 7001 and 8080 of the loopback must be free.
set -euo pipefail

ROOT=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
readonly ROOT
readonly IMAGE=localhost/sluice-demo NAME=fashion-mnist-lenet
readonly DATA=/usr/share/datasets/fashion-mnist
# As in docker/try.sh.
readonly LEAST_ACCURACY=0.88
readonly PATIENCE_S=600

say() { printf 'try.sh: %s\n' "$*"; }
fail() { say "FAILED: $*"; exit 1; }

# Podman with its files in $folder. runc, because Debian's crun refuses hosts
# with cgroups of both versions; low limits, because this process may not be allowed
# to raise its own.
podman() {
  command podman --root "$folder/images" --runroot "$folder/state" "$@"
}

configure() {
  cat >"$folder/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
CONF
  export CONTAINERS_CONF=$folder/containers.conf
}

make_image() {
  podman image exists "$IMAGE" && return
  say "making the image (log: $folder/image.log)"
  local root=$folder/root program packages
  packages=$(sed -n '/^ *libabsl/,/zlib1g/p' "$ROOT/docker/Dockerfile" |
    tr -d '&\\\n')
  {
    debootstrap --variant=minbase bookworm "$root"
    cp /etc/resolv.conf "$root/etc/"
    cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/"
    # shellcheck disable=SC2086  # Several packages.
    chroot "$root" apt-get install -y --no-install-recommends $packages
    chroot "$root" useradd --create-home --uid 1000 sluice
    install -d --owner=1000 "$root/home/sluice/run"
    for program in cli/sluice ps_server/ps_server worker/worker \
      worker/evaluator; do
      install -D --strip "$ROOT/bazel-bin/$program" "$root/opt/sluice/$program"
    done
    mkdir -p "$root$DATA"
    cp "$DATA"/* "$root$DATA"
    tar -C "$root" -c . | podman import -c 'USER sluice' \
      -c 'WORKDIR /home/sluice' -c "ENV PATH=/opt/sluice/cli:\
/opt/sluice/ps_server:/opt/sluice/worker:/usr/bin:/bin" - "$IMAGE"
  } >"$folder/image.log" 2>&1 || {
    tail -n 5 "$folder/image.log"
    fail "the image cannot be made"
  }
  rm -rf "$root"
}

# Where a run that goes on has come to, or nothing.
version() {
  curl -sf --max-time 2 http://127.0.0.1:8080/metrics |
    sed -n 's/^sluice_version \([0-9]*\)$/\1/p'
}

# Waits until the run has a version above $1.
pass() {
  local i now
  for ((i = 0; i < PATIENCE_S; ++i)); do
    now=$(version) || true
    [[ -z $now ]] || ((now <= $1)) || return 0
    sleep 1
  done
  fail "the run does not get beyond version $1"
}

kill_pod() {
  say "killing $1 at version $(version)"
  # Podman does not start again what `podman kill` has ended.
  kill -KILL "$(podman inspect -f '{{.State.Pid}}' "$NAME-$1-sluice")"
}

in_volume() {
  podman run --rm --network=none -v "$NAME-run:/home/sluice/run:ro" "$IMAGE" \
    "$@"
}

clean_up() {
  podman pod rm -a -f >/dev/null 2>&1 || true
  podman volume rm -f "$NAME-run" >/dev/null 2>&1 || true
  [[ -n $keep ]] || rm -rf "$folder"
}

((EUID == 0)) || fail "must be root"
[[ -x $ROOT/bazel-bin/cli/sluice ]] || fail "expected programs in bazel-bin: ./sluice build"
command -v podman runc catatonit debootstrap >/dev/null ||
  fail "packages are missing: ./sluice test --with=podman installs them"
keep=${1:-}
folder=$(realpath -m "${1:-$(mktemp -d /tmp/sluice-pods.XXXXXX)}")
mkdir -p "$folder"
trap clean_up EXIT
trap 'exit 1' INT TERM
configure
make_image
podman pod rm -a -f >/dev/null 2>&1 || true
podman volume rm -f "$NAME-run" >/dev/null 2>&1 || true
"$ROOT/bazel-bin/cli/sluice" deploy kubernetes \
  "$ROOT/configs/fashion_mnist_lenet.textproto" --image="$IMAGE" --pods \
  --set checkpoint.every_s=2 >"$folder/pods.yaml"
podman play kube "$folder/pods.yaml" >"$folder/play.log" 2>&1 || {
  tail -n 5 "$folder/play.log"
  fail "podman play kube"
}
pass 500
kill_pod worker-1
pass 1000
kill_pod lead-0
pass 2000
kill_pod shard-0
for role in lead-0 shard-0 worker-0 worker-1 worker-2 worker-3 evaluator-0; do
  for ((i = 0; i < PATIENCE_S; ++i)); do
    read -r state code < <(podman inspect -f '{{.State.Status}} {{.State.ExitCode}}' \
      "$NAME-$role-sluice")
    [[ $state != exited || $code != 0 ]] || break
    sleep 1
  done
  [[ $state == exited && $code == 0 ]] || {
    podman logs "$NAME-$role-sluice" 2>&1 | tail -n 5
    fail "$role is $state with $code, expected that it ended with 0"
  }
done
in_volume cat run/summary.json >"$folder/summary.json"
in_volume sluice ledger run >"$folder/ledger.txt" || {
  cat "$folder/ledger.txt"
  fail "the ledger"
}
python3 - "$folder/summary.json" "$LEAST_ACCURACY" <<'PYTHON' || fail "the result is wrong"
import json, sys
run, least = json.load(open(sys.argv[1])), float(sys.argv[2])
print(f"  {run['version']} updates, {run['epochs']:.0f} epochs, "
      f"accuracy {run['test_accuracy']:.4f}, generation {run['generation']}; "
      f"{run['gradients']}")
assert run["failure"] == "", run["failure"]
assert run["epochs"] >= 8, run["epochs"]
assert run["generation"] >= 2, "nothing was recovered"
assert run["test_accuracy"] >= least, least
PYTHON
say "passed; the ledger is exact"
