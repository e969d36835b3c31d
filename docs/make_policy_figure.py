#!/usr/bin/python3 -B
"""Draws docs/policies_time.svg and docs/policies_version.svg: which policy is
first at which error, in virtual time.

LeNet on Fashion-MNIST, 16 workers, K = 8, computing a mini-batch takes an
exponential time of mean 50 ms; gradients are really computed. Every policy has
the same job otherwise, also the same rate.
"""

import argparse
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).absolute().parent.parent
JOB = ROOT / "configs/fashion_mnist_lenet.textproto"
# What a curve is called, and what is set for it.
CURVES = {
    "SYNC": "policy: SYNC",
    "K_SYNC, K 8": "policy: K_SYNC k: 8",
    "K_BATCH_SYNC, K 8": "policy: K_BATCH_SYNC k: 8",
    "ASYNC": "policy: ASYNC",
    "K_ASYNC, K 8": "policy: K_ASYNC k: 8",
    "K_BATCH_ASYNC, K 8": "policy: K_BATCH_ASYNC k: 8",
    "K_SYNC, adaptive K from 2":
        "policy: K_SYNC k: 2 k_schedule { adaptive { max_k: 16 } }",
}
DOWNWEIGHT = "staleness { bound: 0 action: DOWNWEIGHT }"


def simulate(tool, sync, folder, epochs, extra):
    sets = [f"sync={{{sync} {DOWNWEIGHT if 'ASYNC' in sync else ''}}}",
            "delays.compute.exponential.mean_ms=50",
            f"schedule.cosine.epochs={epochs}", f"stop={{epochs: {epochs}}}",
            f"evaluation.every_epochs={epochs / 16}", *extra]
    subprocess.run(
        [tool, "simulate", JOB, "--workers=16", f"--run-dir={folder}",
         *(word for s in sets for word in ("--set", s))],
        check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--set", action="append", default=[],
                        help="a field of every job, as simulate takes it")
    parser.add_argument("--tool", default=str(ROOT / "sluice"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        runs = []
        for number, sync in enumerate(CURVES.values()):
            runs.append(f"{scratch}/run{number}")
            simulate(args.tool, sync, runs[-1], args.epochs, args.set)
        labels = [word for name in CURVES for word in ("--label", name)]
        subprocess.run(
            [args.tool, "plot", *runs, *labels, f"--out={scratch}/plots"],
            check=True, stdout=subprocess.DEVNULL)
        for name in ["time", "version"]:
            shutil.copy(f"{scratch}/plots/{name}.svg",
                        args.out / f"policies_{name}.svg")


if __name__ == "__main__":
    main()
