#!/usr/bin/python3 -B
"""How many samples a second does one thread, or one GPU, train, beside PyTorch?

Measures forward and backward of the models of configs/ with mini-batches of 64
and 256. Sluice and PyTorch take turns of a fraction of a second. First both
compute the gradient of the same mini-batch at the same weights, and these must
agree.

Expected: the rate of PyTorch or more, because both leave products and
convolutions to oneDNN, or to cuBLAS and cuDNN. The column `arithmetic` is the
time that the multiply-adds alone would take at the rate of a large matrix
product. Small layers, and everything that only moves memory, keep both below
it.

On the CPU rates are per second of CPU time. Each row compares with a PyTorch
that is restricted to the same vector instructions. If that is a restriction,
`of the unrestricted` compares with a PyTorch that uses the machine's widest
ones. With these, `of the compiled` compares with torch.compile, where there is
one (run this file with the Python that has it).

With --device=cuda rates are per second of wall time. As in a worker, Sluice's
include copying weights from and gradients to the host's memory; PyTorch's stay
on the GPU. PyTorch runs eagerly, and without --eager compiled beside, with
channels-last images and cuDNN's fastest algorithms. For BF16 it uses autocast.
Both then store most activations in 16 bits.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from peers import programs
from report import Report, positive, whole


def images(height, classes):
    """Synthetic images in place of data that the machine may lack."""
    return (f"data={{synthetic_images {{height: {height} classes: {classes} "
            "train_samples: 256 test_samples: 1}}")


def text(length):
    """This file, repeated until it has 256 samples of this many bytes."""
    path = pathlib.Path(__file__).absolute()
    times = 256 * length // path.stat().st_size + 1
    return (f"data={{text {{{f'train: {json.dumps(str(path))} ' * times}"
            f"test: {json.dumps(str(path))} length: {length}}}}}")


# The job, and the settings changed in it.
JOBS = {
    **{name: (f"fashion_mnist_{name}", [])
       for name in ("softmax", "mlp", "lenet", "resnet")},
    "resnet18": ("cifar10_resnet18", [images(32, 10)]),
    "resnet50": ("synthetic_resnet50", [images(224, 1000)]),
    "vgg16": ("cifar10_vgg16", [images(32, 10)]),
    "transformer": ("text_transformer", [text(128)]),
}
MODELS = {"cpu": ["softmax", "mlp", "lenet", "resnet", "transformer"],
          "cuda": ["lenet", "resnet18", "resnet50", "vgg16", "transformer"]}
COMPILED = "of the compiled"
# The largest relative difference of two gradients; for two losses it is a
# tenth. On the CPU, sums in different orders differ by at most 2e-5, but the
# other form of gelu alone by 2e-4. On a GPU cuDNN's fastest algorithms, which
# PyTorch takes, are less exact (Winograd): 3e-3 in VGG-16 on an H100. On a CPU
# PyTorch in BF16 reaches 0.5 there, and TF32 has an eighth of its rounding.
# Unrelated gradients differ by 1.4.
CPU_TOLERANCE = 1e-4
GPU_TOLERANCE = {"FP32": 5e-3, "TF32": 0.2, "BF16": 0.9}
# Which of a program's two rates counts: that of CPU time or of wall time.
CLOCK = {"cpu": 0, "cuda": 1}


@dataclasses.dataclass
class Way:
    """How Sluice computes in a row, and the PyTorch variants it is compared
    with. The rate of the first is the expected one; the others are printed
    beside it."""
    name: str
    settings: list  # Settings of the job.
    peers: dict  # Name in the row -> command.
    tolerance: float


def ways(device, precisions):
    if device == "cuda":
        peer = [*programs.torch("torch_compute", "AVX512"), "--device=cuda"]
        return [Way(name, ["worker.device=CUDA", f"worker.precision={name}"],
                    {"PyTorch": [*peer, f"--precision={name}"],
                     COMPILED: [*peer, f"--precision={name}", "--compiled"]},
                    tolerance)
                for name, tolerance in GPU_TOLERANCE.items()
                if name in precisions]
    peers = {name: programs.torch("torch_compute", name)
             for name in ("AVX2", "AVX512")}
    narrow, wide = (
        Way(name, [f"worker.instruction_set={name}"],
            {"PyTorch": peer}, CPU_TOLERANCE)
        for name, peer in peers.items())
    widest = wide if programs.HAS_AVX512 else narrow
    widest.peers[COMPILED] = [*peers["AVX512"], "--compiled"]
    if widest is narrow:
        return [narrow]
    narrow.peers["of the unrestricted"] = peers["AVX512"]
    return [narrow, wide]


def sluice(model, batch, way, *more):
    job, settings = JOBS[model]
    settings = [*settings, f"data.batch_size={batch}", *way.settings]
    return [programs.built("bench/peers/one_worker"),
            f"--job={programs.ROOT}/configs/{job}.textproto",
            *(f"--set={s}" for s in settings), *more]


def pytorch(peer, model, about, folder, output):
    """The command that reads Sluice's `folder` and writes `output`."""
    return [*peer, f"--model={model}", f"--inputs={folder}",
            f"--folder={output}", "--shape", *map(str, about["input_shape"])]


def check(ours, folder, theirs, output, tolerance):
    """Checks that both have computed the same."""
    # Imported here, because only machines with PyTorch are sure to have it.
    import numpy as np
    g, h = (np.fromfile(path / "gradient.f32", np.float32)
            for path in (folder, output))
    parts = [slice(*r) for r in ours["trained_ranges"]]
    g, h = (np.concatenate([x[p] for p in parts]) for x in (g, h))
    apart = float(np.linalg.norm(g - h) / np.linalg.norm(h))
    losses = ours["loss"], theirs["loss"]
    differ = abs(losses[0] - losses[1]) / losses[1]
    # Written so that NaN fails both comparisons.
    if not (apart <= tolerance and differ <= tolerance / 10):
        sys.exit(f"losses {losses}, gradients {apart:.2g} apart: not the same "
                 "computation")


def measure(report, device, model, batch, way, args):
    """Adds a row. Returns the devices that computed."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory()))

        def enter(command):
            return stack.enter_context(programs.Contestant(command))

        ours = enter(sluice(model, batch, way, f"--folder={folder}"))
        theirs = []
        for i, peer in enumerate(way.peers.values()):
            output = folder / str(i)
            theirs.append(enter(
                pytorch(peer, model, ours.about, folder, output)))
            check(ours.about, folder, theirs[-1].about, output,
                  way.tolerance)
        everyone = [ours, *theirs]
        for one in everyone:  # Warms up the caches.
            one.rates("gradient", args.seconds / 4)
        rounds = [[one.rates("gradient", args.seconds)[CLOCK[device]]
                   for one in everyone] for _ in range(args.rounds)]
    mine, *others = zip(*rounds)  # Round by round.
    ratios = {name: statistics.median(a / b for a, b in zip(mine, other))
              for name, other in zip(way.peers, others)}
    add_row(report, f"{model}, {batch}, {way.name}", ours.about,
            statistics.median(mine), ratios)
    return [one.about["device"] for one in everyone]


def add_row(report, what, about, measured, ratios):
    arithmetic = (about["peak_operations_per_second"] /
                  about["operations_per_sample"])
    if not ratios:
        report.add(what, "samples/s", "arithmetic", arithmetic, measured)
        return
    # Makes the row's ratio the median of the pairs' ratios.
    report.add(what, "samples/s", "PyTorch", measured / ratios.pop("PyTorch"),
               measured, arithmetic=arithmetic, **ratios)


def why_not(model, way):
    """The reason why this machine cannot compute in this way, or None."""
    command = sluice(model, 64, way)
    tried = subprocess.run(
        [str(word) for word in command], text=True, stdin=subprocess.DEVNULL,
        capture_output=True, check=False, timeout=programs.PROGRAM_S,
        env=programs.environment_of(command))
    return tried.stderr.strip() if tried.returncode != 0 else None


def why_no_torch(device):
    """The reason why PyTorch cannot take part, or None."""
    if not programs.has_torch():
        return "python3-torch is not installed"
    if device == "cuda":
        return programs.why_torch_cannot("torch.ones(1, device='cuda')")
    return None


def why_not_compiled(device):
    """The reason why torch.compile cannot take part, or None. It may be
    missing, or the compiler that it needs."""
    return programs.why_torch_cannot(
        f"torch.compile(torch.sin)(torch.ones(8, device='{device}'))")


def leave_out_peers(report, device, eager, all_ways):
    """Leaves out the variants that this machine cannot run, with a note, and
    with `eager` the compiled one."""
    if why := why_no_torch(device):
        report.note(f"SKIPPED: PyTorch ({why})")
        for way in all_ways:
            way.peers.clear()
    elif why := "--eager" if eager else why_not_compiled(device):
        report.note(f"SKIPPED: PyTorch compiled ({why})")
        for way in all_ways:
            way.peers.pop(COMPILED, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="a few seconds, once")
    parser.add_argument("--device", choices=MODELS, default="cpu")
    parser.add_argument("--models", nargs="+", choices=JOBS)
    parser.add_argument("--batches", nargs="+", type=whole, default=[64, 256])
    parser.add_argument("--precisions", nargs="+", choices=GPU_TOLERANCE,
                        default=list(GPU_TOLERANCE), help="of a GPU")
    parser.add_argument("--eager", action="store_true",
                        help="without torch.compile, which takes a minute a model")
    parser.add_argument("--rounds", type=whole, default=7)
    parser.add_argument("--seconds", type=positive, default=0.4, help="of a round")
    args = parser.parse_args()
    if args.tiny:
        args.rounds, args.seconds, args.batches = 1, 0.02, [8]
        args.models = args.models or ["lenet", "transformer"]
    report = Report("compute", __doc__.splitlines()[0])
    all_ways = ways(args.device, args.precisions)
    models = args.models or MODELS[args.device]
    missing = why_not(models[0], all_ways[0]) if args.device == "cuda" else None
    if missing:
        report.note(f"SKIPPED: {missing}")
        report.print(args.json)
        return
    report.note("named are the model, its mini-batch and the precision, or the "
                "vector instructions of both (a job's default is the widest of all workers)")
    leave_out_peers(report, args.device, args.eager, all_ways)
    devices = {}  # A dictionary instead of a set keeps the order.
    for model in models:
        for batch in args.batches:
            for way in all_ways:
                devices.update(dict.fromkeys(
                    measure(report, args.device, model, batch, way, args)))
    for device in devices:
        report.note(device)
    report.print(args.json)


if __name__ == "__main__":
    main()
