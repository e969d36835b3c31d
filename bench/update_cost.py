#!/usr/bin/python3 -B
"""How many bytes and decisions does one update cost under each policy?

Expected: with P workers, K gradients per update and W bytes of weights, T
tasks are started for an update, and X = T - K of them end without being part
of it:

  T = P            SYNC (K = P), K_SYNC
  T = K + P - 1    K_BATCH_SYNC: a worker that has delivered begins another
  T = K            ASYNC (K = 1), K_ASYNC, K_BATCH_ASYNC

Each task pulls W and each gradient pushes W, so an update costs W T and W K
bytes. A shard executes one Commit, and one Discard where X is not 0. The
daemons train the linear job with a delay in each task, so that cancelled tasks
have pulled but not yet pushed.
"""

import argparse
import json
import pathlib
import re
import tempfile

import report
from peers import programs

JOB = programs.ROOT / "configs/linear_regression.textproto"
POLICIES = ["SYNC", "K_SYNC", "K_BATCH_SYNC", "ASYNC", "K_ASYNC",
            "K_BATCH_ASYNC"]
# Two full chunks on each of two shards, and a short one.
FEATURES = 4999
SHARDS = 2
# The counters for each update, and their units. W: the bytes of all weights.
COLUMNS = {"tasks": "tasks", "pulled": "W", "pushed": "W",
           "decisions": "decisions of a shard"}


def expected(policy, p, k):
    """Returns (K, T) of an update."""
    return {"SYNC": (p, p), "K_SYNC": (k, p), "K_BATCH_SYNC": (k, k + p - 1),
            "ASYNC": (1, 1), "K_ASYNC": (k, k),
            "K_BATCH_ASYNC": (k, k)}[policy]


def train(args, policy, updates):
    """The summary of a run, and the counters that the shards log."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder, "run")
        sets = [f"sync.policy={policy}", f"sync.k={args.k}",
                f"cluster={{workers: {args.workers} shards: {SHARDS}}}",
                f"data.linear_regression.features={FEATURES}",
                "data.batch_size=2", "limits.chunk_bytes=4096",
                f"delays.compute.exponential.mean_ms={args.mean_ms}",
                "optimizer.learning_rate=1e-6",
                f"stop={{updates: {updates}}}", "evaluation.enabled=false",
                f"output.run_dir={run}"]
        programs.output_of([args.tool, "train", JOB,
                            *(w for s in sets for w in ("--set", s))])
        shards = []
        for log in sorted(run.glob("ps_server-*.log")):
            [line] = re.findall("event=exchanged (.*)", log.read_text())
            shards.append({name: int(value) for name, value in
                           (word.split("=") for word in line.split())})
        assert len(shards) == SHARDS, shards
        return json.loads((run / "summary.json").read_text()), shards


def measure(args, policy):
    k, tasks = expected(policy, args.workers, args.k)
    updates = max(1, args.gradients // k)
    summary, shards = train(args, policy, updates)
    assert summary["version"] == updates, summary
    assert summary["gradients"]["applied"] == k * updates, summary
    weights = 4 * (FEATURES + 1)

    def total(name):
        return sum(shard[name] for shard in shards)

    return {
        "policy": policy, "gradients": k,
        "tasks": tasks,
        "tasks_measured": sum(summary["gradients"].values()) / updates,
        "pulled": tasks,
        "pulled_measured": total("pull_bytes_total") / weights / updates,
        "pushed": k,
        "pushed_measured": total("push_bytes_total") / weights / updates,
        "decisions": 1 if tasks == k else 2,
        "decisions_measured": total("decisions") / SHARDS / updates,
    }


def print_json(rows):
    result = report.Report("update_cost", __doc__.splitlines()[0])
    for row in rows:
        for name, unit in COLUMNS.items():
            result.add(f"{row['policy']}, {name}", unit, "formula", row[name],
                       row[name + "_measured"])
    result.note("Counts: where ratio is 1 the formula holds; less is better.")
    result.print(as_json=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--mean-ms", type=float, default=10,
                        help="of the delay in each task")
    parser.add_argument("--gradients", type=report.whole, default=2000,
                        help="to apply in each run")
    parser.add_argument("--tool", default=str(programs.ROOT / "sluice"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true",
                        help="two workers, few gradients")
    args = parser.parse_args()
    if args.tiny:
        args.workers, args.k, args.gradients = 2, 1, 100
    rows = [measure(args, policy) for policy in POLICIES]
    if args.json:
        return print_json(rows)
    print("| policy | K | tasks | pulled, W | pushed, W | decisions of a shard |"
          "\n|" + " --- |" * 6)
    for row in rows:
        cells = [f"{row[n]} / {row[n + '_measured']:.2f}" for n in COLUMNS]
        print(f"| {row['policy']} | {row['gradients']} | " +
              " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
