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
import pathlib
import statistics
import sys
import tempfile

import numpy as np

from peers import programs
from report import Report

MODELS = ["softmax", "mlp", "lenet", "resnet"]
# Relative, of the whole gradient: sums of up to 50,000 fp32 terms in different
# orders differ by far less, a wrong layer by far more.
GRADIENT_TOLERANCE = 1e-3


def instruction_sets():
    """Those of Sluice's that the machine has."""
    has_wide = "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text()
    return ["AVX2", "AVX512"] if has_wide else ["AVX2"]


def sluice(model, batch, instruction_set, folder):
    return programs.Contestant([
        programs.built("bench/peers/one_worker"),
        f"--job={programs.ROOT}/configs/fashion_mnist_{model}.textproto",
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
            everyone.append(stack.enter_context(programs.Contestant(
                [*programs.PYTHON, programs.PEERS / "torch_compute.py",
                 f"--model={model}", f"--inputs={folders[0]}",
                 f"--folder={folders[0]}/torch"])))
            for one, folder in zip(ours, folders):
                check(one, everyone[-1], [folder, f"{folders[0]}/torch"])
        for one in everyone:  # The caches of the first calls.
            one.rates("gradient", args.seconds / 4)
        rounds = [[one.rates("gradient", args.seconds)[0] for one in everyone]
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
    args.torch = programs.has_torch()
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
