#!/usr/bin/python3 -B
"""Which share of the useful time is left when processes are killed all the time?

Eight workers and two shards train a tiny model in real daemons under `sluice
train`; each task computes for a delay that the job injects, so that the
machine's cores do not decide. A checkpoint is written every 2 s. Two such runs
go on side by side, so that what else the machine does meets both. In one of
them workers and shards are killed with kill -9 at times that the seed draws,
spread over the whole length: 54 workers, 4 times the lead (shard 0 and the
coordinator) and 4 times shard 1 in 30 minutes. --minutes changes the length,
and keeps the rate of the kills.

The figure is the rate at which samples come into the weights and stay there:
samples of the final weights per second, disturbed / undisturbed. Expected is
at least 0.97 (arithmetic: docs/benchmarks.md). Exits with 1 if a ledger is not
exact.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import report

WORKERS, SHARDS = 8, 2
STORM_MINUTES, WORKER_KILLS, SERVER_KILLS = 30, 54, 8
ALLOWED = 0.97

JOB = """
cluster {{ workers: {workers} shards: {shards} }}
sync {{ {sync} }}
optimizer {{ learning_rate: 1e-4 sgd {{}} }}
data {{
  linear_regression {{ features: 64 train_samples: 20000 }}
  batch_size: 16
}}
model {{ layer {{ dense {{ units: 1 }} }} }}
evaluation {{ enabled: false }}
checkpoint {{ every_s: {every} }}
delays {{ compute {{ constant {{ ms: {ms} }} }} }}
stop {{ seconds: 1e6 }}
"""


class Run:
    """One `sluice train` of the job, from its start to its end."""

    def __init__(self, args, sync, folder):
        self.tool, self.dir = args.tool, folder / "run"
        job = folder / "job.textproto"
        job.write_text(JOB.format(workers=WORKERS, shards=SHARDS, sync=sync,
                                  every=args.every, ms=args.ms))
        self.log = folder / "train.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [args.tool, "train", job, "--run-dir", self.dir],
                stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=report.ends_with_this)

    def asked(self, command):
        """What `sluice command` says of the run, {} if it says nothing."""
        result = subprocess.run([self.tool, command, self.dir, "--json"],
                                capture_output=True, text=True, check=False,
                                timeout=report.DEADLINE_S)
        return json.loads(result.stdout) if result.stdout else {}

    def samples(self):
        """When it was, and how many samples were in the weights then. Waits
        until the run goes on."""
        def running():
            status = self.asked("status")
            return (status.get("phase") == "running" and status["version"] > 0
                    and (time.monotonic(), status["samples_applied"]))
        return report.wait_for(running, f"an update of {self.dir}", self.process)

    def kill(self, part):
        """Kills the process with the argument `part`, once there is one."""
        process = report.wait_for(
            lambda: report.find_part(self.dir / "job.textproto", part),
            f"a process of {self.dir} with {part}", self.process)
        os.kill(int(process.name), signal.SIGKILL)


def schedule(args):
    """(seconds, argument of the process) of each kill, by time."""
    share = args.minutes / STORM_MINUTES
    parts = [f"--worker={i % WORKERS}"
             for i in range(max(1, round(WORKER_KILLS * share)))]
    parts += [f"--shard={i % SHARDS}"
              for i in range(max(1, round(SERVER_KILLS * share)))]
    draw = random.Random(args.seed)
    draw.shuffle(parts)
    return [(60 * args.minutes * (i + draw.random()) / len(parts), part)
            for i, part in enumerate(parts)]


def storm(args, sync, folder):
    """Runs the two runs. Returns of each its rate, ledger and goodput."""
    runs = {}
    try:
        for name in ("undisturbed", "disturbed"):
            (folder / name).mkdir()
            runs[name] = Run(args, sync, folder / name)
        begun = {name: run.samples() for name, run in runs.items()}
        start = time.monotonic()
        for after, part in schedule(args):
            time.sleep(max(0, start + after - time.monotonic()))
            runs["disturbed"].kill(part)
        time.sleep(max(0, start + 60 * args.minutes - time.monotonic()))
        found = {}
        for name, run in runs.items():
            then, samples = run.samples()
            found[name] = {"rate": (samples - begun[name][1]) /
                                   (then - begun[name][0])}
    except AssertionError:
        for run in runs.values():
            print(run.log.read_text()[-1000:], file=sys.stderr)
        raise
    finally:
        for run in runs.values():
            run.process.terminate()
        ends = {name: run.process.wait(timeout=report.DEADLINE_S)
                for name, run in runs.items()}
    assert not any(ends.values()), f"exit statuses {ends}; {folder}"
    for name, run in runs.items():
        found[name]["ledger"] = run.asked("ledger")
        found[name]["goodput"] = run.asked("goodput")
    return found


def add_rows(result, sync, found):
    calm, disturbed = found["undisturbed"], found["disturbed"]
    ledger = disturbed["ledger"]
    result.add(
        f"{sync}: useful samples", "1/s", "the undisturbed run beside it",
        calm["rate"], disturbed["rate"],
        generations=len(ledger["generations"]),
        updates_lost=sum(g["updates_lost"] for g in ledger["generations"]))
    for name, run in found.items():
        seconds = run["goodput"]["seconds"]
        result.note(f"{sync}, {name}: " + ", ".join(
            f"{cause} {part / sum(seconds.values()):.2%}"
            for cause, part in seconds.items() if part) +
                    " of the workers' time")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=report.positive, default=STORM_MINUTES)
    parser.add_argument("--sync", nargs="+", default=["policy: SYNC"],
                        help="field `sync` of the job, a storm for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ms", type=float, default=100,
                        help="that each task computes")
    parser.add_argument("--every", type=float, default=2,
                        help="seconds between two checkpoints")
    parser.add_argument("--folder", help="a folder where the runs stay")
    parser.add_argument("--tool", default=report.ROOT / "bazel-bin/cli/sluice",
                        help="the built sluice")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true",
                        help="two kills in 5 s, to see that it works")
    args = parser.parse_args()
    if args.tiny:
        args.minutes, args.ms, args.every = 5 / 60, 10, 0.5
    result = report.Report("storm", __doc__.splitlines()[0])
    wrong = []
    for sync in args.sync:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(args.folder or temporary,
                                  "".join(c for c in sync if c.isalnum()))
            if folder.exists():
                sys.exit(f"{folder} is there already, of another storm")
            folder.mkdir(parents=True)
            found = storm(args, sync, folder)
        add_rows(result, sync, found)
        wrong += [f"BROKEN: {sync}, {name}: {error}"
                  for name, run in found.items()
                  for error in run["ledger"]["errors"]]
    parts = [part for _, part in schedule(args)]
    result.note(f"{len(parts)} kills in {60 * args.minutes:.0f} s: " + ", ".join(
        f"{parts.count(part)} of {part}" for part in sorted(set(parts))))
    result.note(f"wanted: at least {ALLOWED} of the undisturbed run, and exact "
                "ledgers")
    for what in wrong:
        result.note(what)
    result.print(args.json)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
