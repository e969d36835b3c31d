#!/usr/bin/python3 -B
"""What is left of a PyTorch loop's rate when it runs under Sluice?

LeNet on Fashion-MNIST and a small GPT on bytes, in mini-batches of 256 for each
worker, under SYNC with one shard. Mini-batches are cut from tensors in memory,
so that loading takes no time anywhere.

With --device=cuda model and mini-batches are on the GPU, and one worker is
compared with the plain loop.

Expected of one worker: the rate of the plain loop less a twelfth, for a task
from the coordinator, weights and gradient over gRPC and the update. Expected of
two workers: the rate of DistributedDataParallel (gloo, two processes). All use
one thread, and take turns. The first seconds of each run do not count.
"""

import argparse
import pathlib
import statistics
import tempfile

from peers import programs
from report import Report, positive, whole
from train import steady_rate, torch_rate

# Time of a run before its rate counts: PyTorch is imported, and cuDNN times its
# algorithms.
STARTING_S = {"cpu": 2.0, "cuda": 8.0}
MODELS = {"cpu": ["lenet", "gpt"], "cuda": ["resnet50", "vgg16", "transformer"]}


def loop(name, model, args):
    """The command of a loop of peers/."""
    return [*programs.torch(name, args.instruction_set), f"--model={model}",
            f"--device={args.device}", f"--precision={args.precision}",
            f"--batch-size={args.batch_size}"]


def peer(model, workers, args):
    return torch_rate([*loop("torch_ddp", model, args), f"--workers={workers}",
                       f"--seconds={args.seconds}"])


def under_sluice(model, workers, args):
    command = loop("torch_sluice", model, args)
    command += ["--overlap"] * args.overlap
    starting_s = STARTING_S[args.device]
    with tempfile.TemporaryDirectory() as folder:
        job = programs.output_of([*command, f"--init={folder}"]).strip()
        run = pathlib.Path(folder, "run")
        programs.output_of([
            programs.built("cli/sluice"), "train", job, f"--run-dir={run}",
            f"--workers={workers}", f"--shards={args.shards}",
            f"--set=stop={{seconds: {starting_s + args.seconds}}}", "--",
            *command])
        return steady_rate(run, starting_s)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true",
                        help="a few seconds, once")
    parser.add_argument("--device", choices=MODELS, default="cpu")
    parser.add_argument("--precision", choices=["FP32", "BF16"], default="FP32")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--overlap", action="store_true",
                        help="gradients travel while backward goes on")
    parser.add_argument("--batch-size", type=whole, default=256)
    parser.add_argument("--rounds", type=whole, default=3)
    parser.add_argument("--seconds", type=positive, default=5,
                        help="of each run, once it is under way")
    parser.add_argument("--instruction-set", default="AVX2",
                        choices=["AVX2", "AVX512"],
                        help="that everybody computes with")
    args = parser.parse_args()
    if args.tiny:
        args.rounds, args.seconds = 1, 0.3
        args.models, args.batch_size = ["lenet"], 16
    args.models = args.models or MODELS[args.device]
    report = Report("torch_loop", __doc__.splitlines()[0])
    if programs.has_torch():
        for model in args.models:
            add_rows(report, model, args)
    else:
        report.note("SKIPPED: python3-torch is not installed")
    report.print(args.json)


def add_rows(report, model, args):
    rounds = {}
    for _ in range(args.rounds):
        for workers in [1, 2] if args.device == "cpu" else [1]:
            expected = peer(model, workers, args) * (
                11 / 12 if workers == 1 else 1)
            measured = under_sluice(model, workers, args)
            rounds.setdefault(workers, []).append((measured, expected))
    for workers, pairs in rounds.items():
        measured = statistics.median(m for m, _ in pairs)
        ratio = statistics.median(m / e for m, e in pairs)
        report.add(f"{model}, {workers} worker{'s' * (workers > 1)}",
                   "samples/s",
                   "11/12 of a plain loop" if workers == 1 else "DDP",
                   measured / ratio, measured)


if __name__ == "__main__":
    main()
