#!/usr/bin/python3 -B
"""Does the simulator take the time per update that theory says?

Simulates every policy with 4, 16, 64 and 256 workers, several K, and compute
times that are exponential, shifted exponential and constant, without a
network. Expected: the formula's time, within 1% if it is exact and within its
bounds otherwise; and the formula's mean staleness, which does not depend on
the compute times. Each run leaves out the first ten tasks of each worker, and
goes on until half of its 99% interval is below 0.5% of the mean. Without
--json it prints the table of docs/theory.md.
"""

import argparse
import json
import sys

import report
from peers import programs

JOB = programs.ROOT / "configs/linear_regression.textproto"
# Name -> settings of the delay, in milliseconds.
DELAYS = {
    "exponential, m = 50": "delays.compute.exponential.mean_ms=50",
    "shifted, d = 20, m = 50":
        "delays.compute.shifted_exponential={shift_ms: 20 mean_ms: 50}",
    "constant, c = 50": "delays.compute.constant.ms=50",
}
TOLERANCE = 0.01


def choices(workers):
    """Pairs of policy and K."""
    quarter, half = workers // 4, workers // 2
    return [("SYNC", workers), ("K_SYNC", quarter), ("K_SYNC", 3 * quarter),
            ("K_BATCH_SYNC", half), ("K_BATCH_SYNC", 2 * workers),
            ("ASYNC", 1), ("K_ASYNC", quarter), ("K_ASYNC", half),
            ("K_BATCH_ASYNC", half), ("K_BATCH_ASYNC", 2 * workers)]


def expected_staleness(policy, k, workers):
    """In the long run, for any distribution of compute times."""
    return {"ASYNC": workers - 1, "K_ASYNC": (workers - k) / k,
            "K_BATCH_ASYNC": (workers - 1) / k}.get(policy, 0)


def simulated(args, policy, k, workers, delay):
    k_set = [] if policy in ("SYNC", "ASYNC") else ["--set", f"sync.k={k}"]
    return json.loads(programs.output_of([
        args.tool, "simulate", JOB, "--timing-only", "--json",
        f"--precision={args.precision}", f"--workers={workers}",
        "--set", f"sync.policy={policy}", *k_set, "--set", delay]))


def ratio_of(run):
    """1 if the time lies within the formula's bounds."""
    time, formula = run["mean_update_time"], run["formula"]
    return time / min(max(time, formula["low"]), formula["high"])


def cells(args):
    """Yields each simulated cell: (delay, policy, K, P, result)."""
    for name, delay in DELAYS.items():
        for workers in args.workers:
            for policy, k in choices(workers):
                yield (name, policy, k, workers,
                       simulated(args, policy, k, workers, delay))


def staleness_off(policy, k, workers, run):
    """Relative difference; absolute if none is expected. Constant times
    proceed in rounds, for which the long-run mean holds too."""
    expected = expected_staleness(policy, k, workers)
    return abs(run["mean_staleness"] - expected) / (expected or 1)


def milliseconds(run):
    low, high = 1e3 * run["formula"]["low"], 1e3 * run["formula"]["high"]
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+",
                        default=[4, 16, 64, 256])
    parser.add_argument("--precision", type=float, default=0.005)
    parser.add_argument("--tool", default=str(programs.ROOT / "sluice"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true",
                        help="four workers, rough, to see that it works")
    args = parser.parse_args()
    tolerance = TOLERANCE
    if args.tiny:
        args.workers, args.precision, tolerance = [4], 0.02, 0.04
    result = report.Report("policy_formulas", __doc__.splitlines()[0])
    if not args.json:
        print("| compute times, ms | P | policy | K | formula, ms | simulated |"
              " ratio | staleness | expected |\n|" + " --- |" * 9)
    wrong = []
    for name, policy, k, workers, run in cells(args):
        ratio = ratio_of(run)
        result.add(f"{name}, P {workers}, {policy}, K {k}", "updates/s",
                   "formula", ratio / run["mean_update_time"],
                   1 / run["mean_update_time"],
                   mean_staleness=run["mean_staleness"],
                   expected_staleness=expected_staleness(policy, k, workers))
        if (abs(ratio - 1) > tolerance or
                staleness_off(policy, k, workers, run) > tolerance):
            wrong.append(result.rows[-1])
        if not args.json:
            print(f"| {name} | {workers} | {policy} | {k} | {milliseconds(run)} |"
                  f" {1e3 * run['mean_update_time']:.4g} | {ratio:.4f} |"
                  f" {run['mean_staleness']:.4g} |"
                  f" {expected_staleness(policy, k, workers):.4g} |", flush=True)
    if args.json:
        result.print(as_json=True)
    if wrong:
        sys.exit(f"more than {tolerance:.0%} off: {wrong}")


if __name__ == "__main__":
    main()
