#!/usr/bin/python3 -B
"""What accuracy does each policy reach from the same job, over several seeds?

Expected: the same within a point or two, because the learning rate is low
enough for the stalest gradient. Runs of one policy differ by seed and, except
under SYNC, by the order in which gradients arrive. Each accuracy is printed
beside SYNC's with the same seed. Without --json it prints the rows of
docs/policies.md. A row such as "SYNC, PyTorch" (--rows) trains the same model in
PyTorch under the same policy, and should be as good: only the initial weights
and the rounding differ.
"""

import argparse
import json
import pathlib
import re
import sys
import tempfile

import report
from peers import programs

ROOT = programs.ROOT
LENET = ROOT / "configs/fashion_mnist_lenet.textproto"
POLICIES = ["SYNC", "K_SYNC", "K_BATCH_SYNC", "ASYNC", "K_ASYNC",
            "K_BATCH_ASYNC"]
# Name of a row: the job, and the settings changed in it.
ROWS = {
    **{policy: (LENET, f"sync.policy={policy}") for policy in POLICIES},
    "parameter averaging":
        (ROOT / "configs/fashion_mnist_parameter_averaging.textproto",),
    "Downpour": (ROOT / "configs/fashion_mnist_downpour.textproto",),
}
# The same job with the model in PyTorch.
TORCH_ROWS = [f"{policy}, PyTorch" for policy in POLICIES]
TORCH = ROOT / "python/examples/fashion_mnist"
PYTHONPATH = f"{ROOT}/python:{TORCH}"
WRITE_TORCH_JOB = """
import sys, torch, sluice.torch
from fashion_mnist import LeNet
torch.manual_seed(int(sys.argv[1]))
print(sluice.torch.init(LeNet(), sys.argv[2], train_samples=60000,
                        test_samples=10000, job=sys.argv[3]))
"""


def torch_summary(tool, overrides, seed):
    """Of LENET with the model, its data and its initial weights from PyTorch."""
    others = re.sub(r"^(data|model) \{.*?^\}\n", "",
                    LENET.read_text(), flags=re.M | re.S)
    with tempfile.TemporaryDirectory() as folder:
        job = programs.output_of(
            [sys.executable, "-B", "-c", WRITE_TORCH_JOB, str(seed), folder,
             others], PYTHONPATH=PYTHONPATH).strip()
        path = pathlib.Path(job)  # LENET has the `sync` that counts.
        path.write_text(re.sub("^sync .*\n", "", path.read_text(), count=1))
        return summary(tool, job, overrides, seed,
                       sys.executable, "-B", f"{TORCH}/train.py")


def summary(tool, job, overrides, seed, *model_process):
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        sets = [f"output.run_dir={run}", "evaluation.every_epochs=0",
                *overrides]
        programs.output_of(
            [tool, "train", job, f"--seed={seed}",
             *(word for s in sets for word in ("--set", s)),
             *(["--", *model_process] if model_process else [])],
            PYTHONPATH=PYTHONPATH)
        return json.loads(pathlib.Path(run, "summary.json").read_text())


def runs_of(args, name):
    if name in TORCH_ROWS:
        policy = name.removesuffix(", PyTorch")
        return [torch_summary(args.tool, [f"sync.policy={policy}", *args.set],
                              seed) for seed in args.seeds]
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
    parser.add_argument("--rows", nargs="+", default=list(ROWS),
                        choices=[*ROWS, *TORCH_ROWS])
    parser.add_argument("--set", action="append", default=[],
                        help="a field of every job, as train takes it")
    parser.add_argument("--tool", default=str(ROOT / "sluice"))
    parser.add_argument("--tiny", action="store_true",
                        help="one seed, few rows and updates, to see that it works")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.tiny:
        args.seeds = args.seeds[:1]
        args.set.append("stop={updates: 3}")
        args.rows = args.rows[:2] + TORCH_ROWS[:programs.has_torch()]
    if args.json:
        print_json(args)
    else:
        print_table(args)


if __name__ == "__main__":
    main()
