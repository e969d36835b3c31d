#!/usr/bin/python3 -B
"""Do theory, simulation and daemons agree on the time per update?

Eight workers on this machine train the linear job, with an exponential delay
of mean 50 ms in each task's computation. The same job is simulated, and
computed where a formula is known. Expected: the daemons' time is that of the
formula plus the cost of an update without any delay. That cost is measured in
the same run and printed; it is not subtracted.
"""

import argparse
import json
import pathlib
import tempfile

import report
from peers import programs

JOB = programs.ROOT / "configs/linear_regression.textproto"
POLICIES = ["SYNC", "K_SYNC", "K_BATCH_SYNC", "ASYNC", "K_ASYNC",
            "K_BATCH_ASYNC"]


def sets(policy, args):
    words = [f"sync.policy={policy}", f"sync.k={args.k}",
             f"cluster.workers={args.workers}"]
    return [word for s in words for word in ("--set", s)]


def delay(mean_ms):
    return ["--set", f"delays.compute.exponential.mean_ms={mean_ms}"]


def simulated(args, policy):
    return json.loads(programs.output_of([
        args.tool, "simulate", JOB, "--timing-only", "--json",
        f"--precision={args.precision}", *sets(policy, args),
        *delay(args.mean_ms)]))


def daemons(args, policy, updates, words):
    """Seconds per update in a run of `updates` updates."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder, "run")
        programs.output_of([
            args.tool, "train", JOB, *sets(policy, args), *words,
            "--set", f"stop={{updates: {updates}}}",
            "--set", "evaluation.enabled=false",
            "--set", f"output.run_dir={run}"])
        summary = json.loads((run / "summary.json").read_text())
        return summary["seconds"] / summary["version"]


def print_json(rows):
    result = report.Report("policy_times", __doc__.splitlines()[0])
    for row in rows:
        for source in ["simulated", "daemons"]:
            result.add(f"{row['policy']}, {source}", "updates/s", "formula",
                       1 / row["formula"], 1 / row[source],
                       seconds_without_delay=row["daemons_without_delay"])
    result.print(as_json=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--mean-ms", type=report.positive, default=50)
    parser.add_argument("--gradients", type=report.whole, default=2000,
                        help="to apply in each run")
    parser.add_argument("--precision", type=float, default=0.005,
                        help="of the simulation, as simulate takes it")
    parser.add_argument("--tool", default=str(programs.ROOT / "sluice"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true",
                        help="few workers and updates, to see that it works")
    args = parser.parse_args()
    if args.tiny:
        args.workers, args.k, args.mean_ms = 2, 1, 5
        args.gradients, args.precision = 20, 0.1
    rows = []
    for policy in POLICIES:
        simulation = simulated(args, policy)
        updates = max(1, args.gradients // simulation["k"])
        rows.append({
            "policy": policy,
            "formula": simulation["formula"]["low"],
            "simulated": simulation["mean_update_time"],
            "daemons": daemons(args, policy, updates, delay(args.mean_ms)),
            "daemons_without_delay": daemons(args, policy, updates, []),
        })
    if args.json:
        print_json(rows)
        return
    print("| policy | formula, ms | simulated | daemons | daemons / formula |"
          " an update without delay |\n|" + " --- |" * 6)
    for row in rows:
        print(f"| {row['policy']} | {1e3 * row['formula']:.2f} |"
              f" {1e3 * row['simulated']:.2f} | {1e3 * row['daemons']:.2f} |"
              f" {row['daemons'] / row['formula']:.3f} |"
              f" {1e3 * row['daemons_without_delay']:.2f} |")


if __name__ == "__main__":
    main()
