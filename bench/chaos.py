#!/usr/bin/python3 -B
"""Does training survive the death of its processes, under every policy?

Runs `sluice chaos` with LeNet on Fashion-MNIST once for each policy and seed.
The seed decides when workers, shards and the coordinator are killed, stopped,
cut off or kept from their storage. The same job also runs undisturbed.

Expected: nothing hangs, the ledger is exact, SYNC ends with the same bits, and
the accuracy of the other policies is within 0.02 of the undisturbed run's, as
a mean over the seeds. The seed is also the job's seed. Exits with 1 if
anything does not hold.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import report

LENET = report.ROOT / "configs/fashion_mnist_lenet.textproto"
POLICIES = ["SYNC", "K_SYNC", "K_BATCH_SYNC", "ASYNC", "K_ASYNC",
            "K_BATCH_ASYNC"]
CHAOS_S = 3600  # Longer than any of its runs takes.
WITHIN = 0.02  # Of the undisturbed accuracy, for the mean over the seeds.


def disturb(args, policy, seed):
    """Returns the findings of one `sluice chaos`."""
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        command = [args.tool, "chaos", args.job, "--json", f"--seed={seed}",
                   f"--kills={args.kills}", f"--set=seed={seed}",
                   f"--set=sync.policy={policy}", f"--run-dir={folder}/run",
                   # One seed alone may differ by more than the mean over the
                   # seeds.
                   f"--tolerance={5 * WITHIN}"]
        for name in ("stops", "cuts", "storage_faults"):
            if getattr(args, name) is not None:
                command.append(
                    f"--{name.replace('_', '-')}={getattr(args, name)}")
        command += [f"--set={s}" for s in args.set]
        result = subprocess.run(command, capture_output=True, text=True,
                                check=False, timeout=CHAOS_S,
                                preexec_fn=report.ends_with_this)
        if args.keep:
            pathlib.Path(args.keep).mkdir(parents=True, exist_ok=True)
            pathlib.Path(args.keep, f"{policy}-{seed}.txt").write_text(
                result.stderr + result.stdout)
        if not result.stdout:
            sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")
        found = json.loads(result.stdout)
        measures = any(found[side]["test_accuracy"] is not None
                       for side in ("undisturbed", "disturbed"))
        if not measures and not broken(policy, seed, found):
            sys.exit(f"{args.job}: expected a job of a classification: its "
                     "evaluations measure no accuracy")
        return found


def accuracy(found, side):
    """0 for a run that was given up."""
    return found[side]["test_accuracy"] or 0.0


def broken(policy, seed, found):
    return [f"BROKEN: {policy}, seed {seed}: {name}: {finding['detail']}"
            for name, finding in found["findings"].items()
            if not finding["holds"]]


def measure(args):
    result = report.Report("chaos", __doc__.splitlines()[0])
    wrong = []
    for policy in args.policies:
        found = []
        for seed in args.seeds:
            found.append(disturb(args, policy, seed))
            wrong += broken(policy, seed, found[-1])
        here, there = (statistics.mean(accuracy(f, side) for f in found)
                       for side in ("disturbed", "undisturbed"))
        if abs(here - there) > WITHIN:
            wrong.append(f"BROKEN: {policy}: accuracy {here:.4f}, undisturbed "
                         f"{there:.4f}, expected within {WITHIN}")
        result.add(
            f"{policy}, {len(found)} seeds", "accuracy", "undisturbed", there,
            here, acts=sum(len(f["acts"]) for f in found),
            generations=sum(f["generations"] for f in found),
            updates_lost=sum(f["updates_lost"] for f in found),
            gradients=sum(f["gradients"]["tasks"] for f in found),
            gradients_lost=sum(f["gradients"]["lost"] for f in found),
            longest_wait_s=max(f["longest_wait_s"] for f in found),
            same_bits=sum(f["disturbed"]["weights_sha256"] ==
                          f["undisturbed"]["weights_sha256"] for f in found))
    result.note(f"seeds {' '.join(map(str, args.seeds))}, {args.kills} kills "
                "each; of the seeds, so many ended with the same bits: "
                "same_bits")
    for what in wrong:
        result.note(what)
    result.print(args.json)
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policies", nargs="+", choices=POLICIES,
                        default=POLICIES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--stops", type=int)
    parser.add_argument("--cuts", type=int)
    parser.add_argument("--storage-faults", type=int)
    parser.add_argument("--job", default=LENET)
    parser.add_argument("--set", action="append",
                        default=["stop.epochs=2", "schedule={ cosine { "
                                 "epochs: 2 } warmup_epochs: 0.5 }",
                                 "limits.lease_s=2",
                                 "evaluation.every_epochs=0"],
                        help="a field of every job, as train takes it")
    parser.add_argument("--tool", default=str(report.ROOT / "sluice"))
    parser.add_argument("--folder", help="where the runs' folders are made")
    parser.add_argument("--keep", help="a folder for what each run printed")
    parser.add_argument("--tiny", action="store_true",
                        help="one short run, to see that it works")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.tiny:
        args.policies, args.seeds = ["SYNC"], [1]
        args.kills, args.stops, args.cuts = 1, 0, 0
        args.set += ["stop={ updates: 400 }", "data.batch_size=16"]
    sys.exit(measure(args))


if __name__ == "__main__":
    main()
