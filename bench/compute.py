#!/usr/bin/python3 -B
"""How many samples a second does one thread train, beside PyTorch?

Forward and backward of the models of configs/ with mini-batches of 64 and 256,
Sluice and PyTorch in turn, a fraction of a second each; both first compute the
gradient of the same mini-batch at the same weights, which must agree. Expected:
what PyTorch reaches, or more: both leave products and convolutions to oneDNN.
Beside it `arithmetic`: what the multiply-adds alone would take at the rate of a
large matrix product; small layers and everything that only moves memory keep
both below it. Rates are per second of CPU time.

Each row compares with a PyTorch that is held to the same vector instructions;
`of the unrestricted`, where that is another, with one that takes the machine's widest.
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


def pytorch(model, instruction_set, folder):
    """Reads what Sluice wrote into the folder, writes into folder/torch."""
    return programs.Contestant([
        *programs.torch("torch_compute", instruction_set), f"--model={model}",
        f"--inputs={folder}", f"--folder={folder}/torch"])


def check(ours, theirs, folder):
    """Both must have computed the same."""
    g, h = (np.fromfile(path / "gradient.f32", np.float32)
            for path in (folder, folder / "torch"))
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
        sets, ours, theirs = instruction_sets(), [], []
        for name in sets:
            folder = pathlib.Path(
                stack.enter_context(tempfile.TemporaryDirectory()))
            ours.append(stack.enter_context(sluice(model, batch, name, folder)))
            if args.torch:
                theirs.append(
                    stack.enter_context(pytorch(model, name, folder)))
                check(ours[-1], theirs[-1], folder)
        everyone = ours + theirs
        for one in everyone:  # The caches of the first calls.
            one.rates("gradient", args.seconds / 4)
        rounds = [[one.rates("gradient", args.seconds)[0] for one in everyone]
                  for _ in range(args.rounds)]
        rates = list(zip(*rounds))  # Of each contestant, round by round.
        for i, name in enumerate(sets):
            add_row(report, f"{model}, {batch}, {name}", ours[i].about, rates[i],
                    rates[len(sets) + i] if args.torch else None,
                    rates[-1] if args.torch and name != sets[-1] else None)
        return [one.about["device"] for one in everyone]


def median_ratio(ours, theirs):
    return statistics.median(a / b for a, b in zip(ours, theirs))


def add_row(report, what, about, ours, theirs, unrestricted):
    measured = statistics.median(ours)
    arithmetic = (about["peak_operations_per_second"] /
                  about["operations_per_sample"])
    if theirs is None:
        report.add(what, "samples/s", "arithmetic", arithmetic, measured)
        return
    more = {"arithmetic": arithmetic}
    if unrestricted is not None:
        more["of the unrestricted"] = median_ratio(ours, unrestricted)
    # So that the row's ratio is the median of the pairs' ratios.
    report.add(what, "samples/s", "PyTorch",
               measured / median_ratio(ours, theirs), measured, **more)


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
    report.note("named are the model, its mini-batch and the vector "
                "instructions of both (a job's default is AVX2)")
    for device in devices:
        report.note(device)
    if not args.torch:
        report.note("SKIPPED: PyTorch (python3-torch is not installed)")
    report.print(args.json)


if __name__ == "__main__":
    main()
