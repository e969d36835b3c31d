#!/usr/bin/python3 -B
"""How many samples a second does one thread train, beside PyTorch?

Forward and backward of the models of configs/ with mini-batches of 64 and 256,
Sluice and PyTorch in turn, a fraction of a second each; both first compute the
gradient of the same mini-batch at the same weights, which must agree. Expected:
what PyTorch reaches, or more: both leave products and convolutions to oneDNN.
Beside it `arithmetic`: what the multiply-adds alone would take at the rate of a
large matrix product; small layers and everything that only moves memory keep
both below it. Rates are per second of CPU time.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from report import Report

BENCH = pathlib.Path(__file__).absolute().parent
ROOT = BENCH.parent
# What is installed for the machine's own Python.
PYTHON = ["/usr/bin/python3", "-B"]
MODELS = ["softmax", "mlp", "lenet", "resnet"]
# Relative, of the whole gradient: sums of up to 50,000 fp32 terms in different
# orders differ by far less, a wrong layer by far more.
GRADIENT_TOLERANCE = 1e-3


def one_worker():
    """The program, in Bazel's outputs or beside this file in a test."""
    beside = BENCH / "peers/one_worker"
    return beside if beside.exists() else ROOT / "bazel-bin/bench/peers/one_worker"


class Contestant:
    """A program that speaks as peers/one_worker.cc says."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        self.about = json.loads(self._line())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args[:3]} ended early")
        return line

    def rate(self, seconds, work="gradient"):
        """Samples per second of CPU time and of the clock."""
        self.process.stdin.write(f"{work} {seconds}\n")
        self.process.stdin.flush()
        return tuple(map(float, self._line().split()))


def instruction_sets():
    """Those of Sluice's that the machine has."""
    has_wide = "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text()
    return ["AVX2", "AVX512"] if has_wide else ["AVX2"]


def sluice(model, batch, instruction_set, folder):
    return Contestant([
        one_worker(), f"--job={ROOT}/configs/fashion_mnist_{model}.textproto",
        f"--set=data.batch_size={batch}", f"--folder={folder}",
        f"--set=worker.instruction_set={instruction_set}"])


def check(ours, theirs, folders):
    """Both must have computed the same."""
    g, h = (np.fromfile(f"{folder}/gradient.f32", np.float32)
            for folder in folders)
    parts = [slice(*r) for r in ours.about["trained_ranges"]]
    g, h = (np.concatenate([x[p] for p in parts]) for x in (g, h))
    apart = float(np.linalg.norm(g - h) / np.linalg.norm(h))
    losses = ours.about["loss"], theirs.about["loss"]
    if apart > GRADIENT_TOLERANCE or abs(losses[0] - losses[1]) > 1e-4 * losses[1]:
        sys.exit(f"losses {losses}, gradients {apart:.2g} apart: not the same "
                 "computation")


def measure(report, model, batch, args):
    """Adds the rows of one model and mini-batch."""
    with contextlib.ExitStack() as stack:
        sets = instruction_sets()
        folders = [stack.enter_context(tempfile.TemporaryDirectory())
                   for _ in sets]
        ours = [stack.enter_context(sluice(model, batch, *pair))
                for pair in zip(sets, folders)]
        everyone = list(ours)
        if args.torch:
            everyone.append(stack.enter_context(Contestant(
                [*PYTHON, BENCH / "peers/torch_compute.py", f"--model={model}",
                 f"--inputs={folders[0]}", f"--folder={folders[0]}/torch"])))
            for one, folder in zip(ours, folders):
                check(one, everyone[-1], [folder, f"{folders[0]}/torch"])
        for one in everyone:  # The caches of the first calls.
            one.rate(args.seconds / 4)
        rounds = [[one.rate(args.seconds)[0] for one in everyone]
                  for _ in range(args.rounds)]
        for i, name in enumerate(sets):
            add_row(report, f"{model}, {batch}, {name}", ours[i].about,
                    [r[i] for r in rounds],
                    [r[-1] for r in rounds] if args.torch else None)
        return [one.about["device"] for one in everyone]


def add_row(report, what, about, ours, theirs):
    measured = statistics.median(ours)
    arithmetic = (about["peak_operations_per_second"] /
                  about["operations_per_sample"])
    if theirs is None:
        report.add(what, "samples/s", "arithmetic", arithmetic, measured)
        return
    # So that the row's ratio is the median of the pairs' ratios.
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    report.add(what, "samples/s", "PyTorch", measured / ratio, measured,
               arithmetic=arithmetic)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="a few seconds, once")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--batches", nargs="+", type=int, default=[64, 256])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.4, help="of a round")
    args = parser.parse_args()
    if args.tiny:
        args.rounds, args.seconds, args.batches = 1, 0.02, [64]
    # Asked of the Python that will run it.
    args.torch = subprocess.run(
        [*PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0
    report = Report("compute", __doc__.splitlines()[0])
    for model in args.models:
        for batch in args.batches:
            devices = measure(report, model, batch, args)
    report.note("named are the model, its mini-batch and Sluice's widest vector "
                "instructions (AVX2 unless the job says otherwise); PyTorch "
                "takes what it finds")
    for device in devices:
        report.note(device)
    if not args.torch:
        report.note("SKIPPED: PyTorch (python3-torch is not installed)")
    report.print(args.json)


if __name__ == "__main__":
    main()
