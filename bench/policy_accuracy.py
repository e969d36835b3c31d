#!/usr/bin/python3 -B
"""What accuracy does each policy reach from the same job, over several seeds?

Expected: the same within a point or two, because the learning rate is low
enough for the stalest gradient. Runs of one policy differ by seed and, except
under SYNC, by the order in which gradients arrive. Each accuracy is printed
beside SYNC's with the same seed. Without --json it prints the rows of
docs/policies.md.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
LENET = "configs/fashion_mnist_lenet.textproto"
# Name of a row: the job, and the settings changed in it.
ROWS = {
    **{policy: (LENET, f"sync.policy={policy}")
       for policy in ["SYNC", "K_SYNC", "K_BATCH_SYNC", "ASYNC", "K_ASYNC",
                      "K_BATCH_ASYNC"]},
    "parameter averaging":
        ("configs/fashion_mnist_parameter_averaging.textproto",),
    "Downpour": ("configs/fashion_mnist_downpour.textproto",),
}


def summary(tool, job, overrides, seed):
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        sets = [f"output.run_dir={run}", "evaluation.every_epochs=0",
                *overrides]
        subprocess.run(
            [tool, "train", job, f"--seed={seed}",
             *(word for s in sets for word in ("--set", s))],
            cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return json.loads(pathlib.Path(run, "summary.json").read_text())


def runs_of(args, name):
    job, *overrides = ROWS[name]
    return [summary(args.tool, job, overrides + args.set, seed)
            for seed in args.seeds]


def print_json(args):
    result = report.Report("policy_accuracy", __doc__.splitlines()[0])
    expected = runs_of(args, "SYNC")
    for name in args.rows:
        runs = expected if name == "SYNC" else runs_of(args, name)
        for seed, run, sync in zip(args.seeds, runs, expected):
            result.add(f"{name}, seed {seed}", "accuracy", "SYNC",
                       sync["test_accuracy"], run["test_accuracy"],
                       updates=run["version"],
                       mean_staleness=run["mean_staleness"])
    result.print(as_json=True)


def print_table(args):
    print("| job | " + " | ".join(f"seed {s}" for s in args.seeds) +
          " | updates | mean staleness |\n|" + " --- |" *
          (len(args.seeds) + 3))
    for name in args.rows:
        runs = runs_of(args, name)
        cells = [f"{run['test_accuracy']:.4f}" for run in runs]
        cells.append(str(runs[-1]["version"]))
        cells.append(f"{runs[-1]['mean_staleness']:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--set", action="append", default=[],
                        help="a field of every job, as train takes it")
    parser.add_argument("--tool", default=str(ROOT / "sluice"))
    parser.add_argument("--tiny", action="store_true",
                        help="one seed, few updates, to see that it works")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.tiny:
        args.seeds = args.seeds[:1]
        args.set.append("stop={updates: 3}")
    if args.json:
        print_json(args)
    else:
        print_table(args)


if __name__ == "__main__":
    main()
