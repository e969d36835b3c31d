#!/usr/bin/python3 -B
"""How much of the time that weights and gradients travel is hidden behind compute?

Trains ResNet-50 with two workers and two shards on one machine, in real
daemons, under SYNC and ASYNC, and evaluates the workers' timeline. A worker's
weights travel from the arrival of their first chunk to that of the last. Its
gradient travels while chunks are sent and until every shard has staged all of
it. The hidden part is the time during which the same worker runs forward or
backward. Waiting for the first chunk counts as neither.

Expected: everything is hidden, or, if travelling takes longer than the
computation, as much as the computation covers. Two parts cannot be hidden: the
weights of the first layers, for which forward waits, and the gradients of
these layers, which are the last. Both are small in a network whose weights are
in its last layers.
"""

import argparse
import json
import pathlib
import tempfile

from peers import programs
from report import Report, whole

COMPUTE = {"forward", "backward"}
TRAVELS = {"pull": "weights travel", "push": "gradient travels"}
# Tasks of each worker that do not count: connections and first calls.
WARM_UP = 1


def union(spans):
    """Merges spans (begin, end) that touch. Returns them in order."""
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def length(spans):
    return sum(end - begin for begin, end in union(spans))


def common(some, others):
    """Seconds that lie in both lists of spans, at least 0."""
    return max(0, length(some) + length(others) - length([*some, *others]))


def tasks_of(events):
    """Worker -> the spans, by name, of each delivered task. A task's events
    come after the task's own event."""
    tasks = {}
    for event in events:
        if event["ph"] != "X":
            continue
        mine = tasks.setdefault(event["pid"], [])
        if event["name"] == "task":
            mine.append({"delivered": event["args"]["outcome"] == "delivered"})
        else:
            mine[-1].setdefault(event["name"], []).append(
                (event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6))
    return {worker: [task for task in mine if task["delivered"]]
            for worker, mine in tasks.items()}


def shares(events):
    """Seconds of a task, and the hidden part of each transfer for it."""
    seconds = dict.fromkeys([*TRAVELS, "compute", "travel", "hidden"], 0)
    hidden = dict.fromkeys(TRAVELS, 0)
    count = 0
    for mine in tasks_of(events).values():
        # Transfers for a task may overlap with the computation of the previous
        # one.
        compute = [span for task in mine for name in COMPUTE
                   for span in task.get(name, [])]
        for task in mine[WARM_UP:]:
            travels = {way: task.get(name, []) for way, name in TRAVELS.items()}
            for way, spans in travels.items():
                seconds[way] += length(spans)
                hidden[way] += common(spans, compute)
            both = [span for spans in travels.values() for span in spans]
            seconds["travel"] += length(both)
            seconds["hidden"] += common(both, compute)
            seconds["compute"] += length(
                [span for name in COMPUTE for span in task.get(name, [])])
            count += 1
    if not all(seconds[name] for name in [*TRAVELS, "compute"]):
        raise SystemExit(f"{count} tasks, of these {seconds}: expected slices of "
                         "several chunks, and tasks that were delivered")
    return {**{f"{way}_hidden": hidden[way] / seconds[way] for way in TRAVELS},
            "hidden": seconds["hidden"] / seconds["travel"],
            "travel_ms": 1e3 * seconds["travel"] / count,
            "compute_ms": 1e3 * seconds["compute"] / count}


def run(policy, args):
    """Runs the job. Returns the events of its timeline."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = pathlib.Path(folder, "run")
        programs.output_of([
            programs.built("cli/sluice"), "train",
            programs.ROOT / f"configs/{args.job}.textproto",
            f"--run-dir={run_dir}", "--timeline", *args.sets,
            f"--set=sync={{policy: {policy}}}",
            "--set=cluster.shards=2", "--set=cluster.workers=2",
            "--set=evaluation.enabled=false",
            f"--set=worker.device={args.device.upper()}",
            f"--set=worker.precision={args.precision}",
            f"--set=data.batch_size={args.batch}",
            f"--set=stop={{updates: {args.updates}}}"])
        # The file may end with a comma and without the closing bracket.
        lines = (run_dir / "timeline.json").read_text().rstrip().rstrip(",")
        return json.loads(lines + "]")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true",
                        help="a small network for a few seconds")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", default="FP32")
    parser.add_argument("--job", default="synthetic_resnet50",
                        help="of configs/, by name")
    parser.add_argument("--batch", type=whole, default=4)
    parser.add_argument("--updates", type=whole, default=8)
    args = parser.parse_args()
    args.sets = []
    if args.tiny:
        args.job, args.updates = "cifar10_resnet20", 8
        args.sets = ["--set=data={synthetic_images {height: 32 classes: 10 "
                     "train_samples: 256 test_samples: 1} batch_size: 4}",
                     "--set=limits.chunk_bytes=65536"]
    report = Report("overlap", __doc__.splitlines()[0])
    for policy in ("SYNC", "ASYNC"):
        found = shares(run(policy, args))
        hidden = found.pop("hidden")
        report.add(f"{policy}, {args.job}", "share of the time",
                   "as much as the computation covers",
                   min(1, found["compute_ms"] / found["travel_ms"]), hidden,
                   **found)
    report.note("pull_hidden, push_hidden: of the weights, of the gradient; ms of "
                "a task")
    report.print(args.json)


if __name__ == "__main__":
    main()
