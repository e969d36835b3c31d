#!/usr/bin/python3 -B
"""How many samples a second does one thread, or one GPU, train, beside PyTorch?

Forward and backward of the models of configs/ with mini-batches of 64 and 256,
Sluice and PyTorch in turn, a fraction of a second each; both first compute the
gradient of the same mini-batch at the same weights, which must agree. Expected:
what PyTorch reaches, or more: both leave products and convolutions to oneDNN, or
to cuBLAS and cuDNN. Beside it `arithmetic`: what the multiply-adds alone would
take at the rate of a large matrix product; small layers and everything that only
moves memory keep both below it.

On the CPU rates are per second of CPU time. Each row compares with a PyTorch that
is held to the same vector instructions; `of the unrestricted`, where that is
another, with one that takes the machine's widest.

With --device=cuda rates are per second of the clock, and Sluice's, as in a worker,
include weights from and gradients to the host's memory; PyTorch's stay on the GPU.
It runs eagerly, images with channels last and cuDNN's fastest algorithms; `of the
compiled` compares with torch.compile.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from peers import programs
from report import Report


def images(height, classes):
    """In place of data that the machine may lack."""
    return (f"data={{synthetic_images {{height: {height} classes: {classes} "
            "train_samples: 256 test_samples: 1}}")


def text(length):
    """This file, as often as 256 samples of so many bytes take."""
    path = pathlib.Path(__file__).absolute()
    times = 256 * length // path.stat().st_size + 1
    return (f"data={{text {{{f'train: {json.dumps(str(path))} ' * times}"
            f"test: {json.dumps(str(path))} length: {length}}}}}")


# Job, and what is set in it.
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
# Relative, of the whole gradient. On the CPU sums in different orders come to
# 2e-5 at most, the other form of gelu alone to 2e-4; a GPU sums yet others.
GRADIENT_TOLERANCE = {"cpu": 1e-4, "cuda": 1e-3}


class Contest:
    """Who computes on a device: Sluice in some ways, and PyTorch in at least as
    many, one beside each, the last in the way that is fastest."""

    def __init__(self, device):
        self.device = device
        if device == "cuda":
            self.ways = {"FP32": "worker.device=CUDA"}
            self.peers = [torch_cuda(), [*torch_cuda(), "--compiled"]]
            self.fastest, self.clock = "of the compiled", 1
            return
        has_wide = "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text()
        names = ["AVX2", "AVX512"] if has_wide else ["AVX2"]
        self.ways = {name: f"worker.instruction_set={name}" for name in names}
        self.peers = [programs.torch("torch_compute", name) for name in names]
        self.fastest, self.clock = "of the unrestricted", 0


def torch_cuda():
    return [*programs.torch("torch_compute", "AVX512"), "--device=cuda"]


def sluice(model, batch, way, folder=None):
    job, sets = JOBS[model]
    return [programs.built("bench/peers/one_worker"),
            f"--job={programs.ROOT}/configs/{job}.textproto",
            *(f"--set={s}" for s in sets),
            f"--set=data.batch_size={batch}", f"--set={way}",
            *([f"--folder={folder}"] if folder else [])]


def pytorch(peer, model, about, folder, output):
    """Reads what Sluice wrote into `folder`, writes into `output`."""
    return [*peer, f"--model={model}", f"--inputs={folder}",
            f"--folder={output}", "--shape", *map(str, about["input_shape"])]


def check(ours, folder, theirs, output, tolerance):
    """Both must have computed the same."""
    import numpy as np  # Only where PyTorch is, which needs it too.
    g, h = (np.fromfile(path / "gradient.f32", np.float32)
            for path in (folder, output))
    parts = [slice(*r) for r in ours["trained_ranges"]]
    g, h = (np.concatenate([x[p] for p in parts]) for x in (g, h))
    apart = float(np.linalg.norm(g - h) / np.linalg.norm(h))
    losses = ours["loss"], theirs["loss"]
    if apart > tolerance or abs(losses[0] - losses[1]) > 1e-4 * losses[1]:
        sys.exit(f"losses {losses}, gradients {apart:.2g} apart: not the same "
                 "computation")


def measure(report, contest, model, batch, args):
    """Adds the rows of one model and mini-batch."""
    with contextlib.ExitStack() as stack:
        top = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def enter(command):
            return stack.enter_context(programs.Contestant(command))

        ours, theirs = [], []
        for name, way in contest.ways.items():
            folder = top / name
            folder.mkdir()
            ours.append(enter(sluice(model, batch, way, folder)))
        for i, peer in enumerate(contest.peers if args.torch else []):
            beside = min(i, len(ours) - 1)
            folder = top / list(contest.ways)[beside]
            about, output = ours[beside].about, folder / f"torch{i}"
            theirs.append(enter(pytorch(peer, model, about, folder, output)))
            check(about, folder, theirs[-1].about, output,
                  GRADIENT_TOLERANCE[contest.device])
        everyone = ours + theirs
        for one in everyone:  # The caches of the first calls.
            one.rates("gradient", args.seconds / 4)
        rounds = [[one.rates("gradient", args.seconds)[contest.clock]
                   for one in everyone] for _ in range(args.rounds)]
        rates = list(zip(*rounds))  # Of each contestant, round by round.
        for i, name in enumerate(contest.ways):
            more = {}
            if args.torch and i < len(theirs) - 1:
                more[contest.fastest] = median_ratio(rates[i], rates[-1])
            add_row(report, f"{model}, {batch}, {name}", ours[i].about, rates[i],
                    rates[len(ours) + i] if args.torch else None, more)
        return [one.about["device"] for one in everyone]


def median_ratio(ours, theirs):
    return statistics.median(a / b for a, b in zip(ours, theirs))


def add_row(report, what, about, ours, theirs, more):
    measured = statistics.median(ours)
    arithmetic = (about["peak_operations_per_second"] /
                  about["operations_per_sample"])
    if theirs is None:
        report.add(what, "samples/s", "arithmetic", arithmetic, measured)
        return
    # So that the row's ratio is the median of the pairs' ratios.
    report.add(what, "samples/s", "PyTorch",
               measured / median_ratio(ours, theirs), measured,
               arithmetic=arithmetic, **more)


def why_not(contest):
    """What keeps this machine from computing on the device, else None."""
    way = next(iter(contest.ways.values()))
    tried = subprocess.run(
        [str(word) for word in sluice("lenet", 64, way)], text=True,
        stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return tried.stderr.strip() if tried.returncode != 0 else None


def why_no_torch(device):
    """What keeps PyTorch from taking part, else None."""
    if not programs.has_torch():
        return "python3-torch is not installed"
    if device == "cuda":
        return programs.why_torch_cannot("torch.ones(1, device='cuda')")
    return None


def why_not_compiled():
    """What keeps torch.compile from taking part, else None: it may be missing,
    or the compiler that it needs."""
    return programs.why_torch_cannot(
        "torch.compile(torch.sin)(torch.ones(8, device='cuda'))")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="a few seconds, once")
    parser.add_argument("--device", choices=MODELS, default="cpu")
    parser.add_argument("--models", nargs="+", choices=JOBS)
    parser.add_argument("--batches", nargs="+", type=int, default=[64, 256])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.4, help="of a round")
    args = parser.parse_args()
    if args.tiny:
        args.rounds, args.seconds, args.batches = 1, 0.02, [8]
    report = Report("compute", __doc__.splitlines()[0])
    contest = Contest(args.device)
    missing = why_not(contest) if args.device == "cuda" else None
    if missing:
        report.note(f"SKIPPED: {missing}")
        report.print(args.json)
        return
    no_torch = why_no_torch(args.device)
    args.torch = no_torch is None
    if args.torch and args.device == "cuda" and (why := why_not_compiled()):
        contest.peers.pop()
        report.note(f"SKIPPED: PyTorch compiled ({why})")
    for model in args.models or MODELS[args.device]:
        for batch in args.batches:
            devices = measure(report, contest, model, batch, args)
    report.note("named are the model, its mini-batch and the precision, or the "
                "vector instructions of both (a job's default is AVX2)")
    for device in devices:
        report.note(device)
    if no_torch:
        report.note(f"SKIPPED: PyTorch ({no_torch})")
    report.print(args.json)


if __name__ == "__main__":
    main()
