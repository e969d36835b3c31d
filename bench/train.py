#!/usr/bin/python3 -B
"""How many samples a second does the whole system train, beside PyTorch?

LeNet on Fashion-MNIST in real daemons: one shard, one and two workers, SYNC
and ASYNC, mini-batches of 64 and 256 for each worker.

Expected of one worker: the rate of the same computation in one process without
servers, less a tenth for pulling and pushing a quarter of a megabyte. Expected
of two workers: the rate of PyTorch's DistributedDataParallel (gloo, two
processes), and 1.5 times that of a parameter server over torch RPC with two
workers. All use the same vector instructions and take turns. The first second
of each run does not count.
"""

import argparse
import json
import pathlib
import statistics
import tempfile

from peers import programs
from report import Report, metrics_from, positive, whole

JOB = programs.ROOT / "configs/fashion_mnist_lenet.textproto"
TRAIN_SAMPLES = 60000
STARTING_S = 1.0  # Time of a run before its rate counts.


def sets(batch, args):
    return [f"--set=data.batch_size={batch}",
            f"--set=worker.instruction_set={args.instruction_set}"]


def without_server(batch, args):
    with programs.Contestant([programs.built("bench/peers/one_worker"),
                              f"--job={JOB}", *sets(batch, args)]) as worker:
        worker.rates("train", args.seconds / 4)
        return worker.rates("train", args.seconds)[1]


def daemons(policy, workers, batch, args):
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder, "run")
        programs.output_of([
            programs.built("cli/sluice"), "train", JOB, f"--run-dir={run}",
            *sets(batch, args), f"--set=sync={{policy: {policy}}}",
            "--set=cluster.shards=1", f"--set=cluster.workers={workers}",
            "--set=evaluation.enabled=false", "--set=output.metrics_every_s=0.1",
            f"--set=stop={{seconds: {STARTING_S + args.seconds}}}"])
        check(json.loads((run / "summary.json").read_text()), policy, workers)
        return steady_rate(run, STARTING_S)


def steady_rate(run, starting_s):
    """Samples per second of a run on TRAIN_SAMPLES, once it is under way."""
    first, last = metrics_from(run, starting_s)
    return ((last["epoch"] - first["epoch"]) * TRAIN_SAMPLES /
            (last["seconds"] - first["seconds"]))


def check(summary, policy, workers):
    """Checks that every gradient was counted once."""
    per_update = workers if policy == "SYNC" else 1
    applied = summary["gradients"].pop("applied")
    unapplied = sum(summary["gradients"].values())
    # When the run ends, workers may be in the middle of a gradient.
    assert abs(applied - per_update * summary["version"]) < per_update, summary
    assert unapplied <= workers and not summary["failure"], summary


def torch_rate(command):
    """Samples per second of PyTorch's processes, which meet in a file: a port
    that is free now may be taken when they listen there."""
    with tempfile.TemporaryDirectory() as folder:
        printed = programs.output_of([*command, f"--meet={folder}/processes"])
    return json.loads(printed.splitlines()[-1])["samples_per_second"]


def torch_peer(name, batch, args):
    return torch_rate([*programs.torch(name, args.instruction_set),
                       f"--batch-size={batch}", f"--seconds={args.seconds}"])


def measure_round(batch, args):
    """Name -> samples per second."""
    rates = {"no server": without_server(batch, args)}
    for policy, workers in args.runs:
        rates[policy, workers] = daemons(policy, workers, batch, args)
    if args.torch:
        rates["DDP"] = torch_peer("torch_ddp", batch, args)
        rates["RPC"] = torch_peer("torch_rpc", batch, args)
    return rates


def median_ratio(rounds, one, other):
    return statistics.median(r[one] / r[other] for r in rounds)


def add_rows(report, batch, rounds, args):
    for key in rounds[0]:
        if not isinstance(key, tuple):
            continue
        policy, workers = key
        # One worker is compared with itself only, two workers with the peers.
        beside = "no server" if workers == 1 or not args.torch else "DDP"
        measured = statistics.median(r[key] for r in rounds)
        more = {f"of_{name.replace(' ', '_')}": median_ratio(rounds, key, name)
                for name in ("no server", "DDP", "RPC")
                if name in rounds[0] and name != beside and workers > 1}
        report.add(f"{policy}, {workers} worker{'s' * (workers > 1)}, {batch}",
                   "samples/s", beside,
                   measured / median_ratio(rounds, key, beside), measured, **more)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="a few seconds, once")
    parser.add_argument("--batches", nargs="+", type=whole, default=[64, 256])
    parser.add_argument("--rounds", type=whole, default=3)
    parser.add_argument("--seconds", type=positive, default=3,
                        help="of each run, once it is under way")
    parser.add_argument("--instruction-set", default="AVX2",
                        choices=["AVX2", "AVX512"],
                        help="that everybody computes with")
    args = parser.parse_args()
    args.runs = [("SYNC", 1), ("ASYNC", 1), ("SYNC", 2), ("ASYNC", 2)]
    if args.tiny:
        args.rounds, args.seconds, args.batches = 1, 0.3, [64]
        args.runs = [("SYNC", 1), ("ASYNC", 2)]
    args.torch = programs.has_torch()
    report = Report("train", __doc__.splitlines()[0])
    for batch in args.batches:
        rounds = [measure_round(batch, args) for _ in range(args.rounds)]
        add_rows(report, batch, rounds, args)
    report.note("no server: the same computation in one process, read, computed "
                "and applied; the number after the workers is the mini-batch of "
                "each; ratios are medians over rounds")
    if not args.torch:
        report.note("SKIPPED: PyTorch (python3-torch is not installed)")
    report.print(args.json)


if __name__ == "__main__":
    main()
