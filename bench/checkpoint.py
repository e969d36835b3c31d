#!/usr/bin/python3 -B
"""How much do checkpoints slow down updates?

A model of 33 million weights with Adam (400 MB of weights and state on one
shard), one worker, SYNC, in real daemons. Runs with a checkpoint every few
seconds and runs without take turns. Expected: at least 0.9 of the updates per
second without checkpoints, because a shard keeps working while one is written
and only has to write one update into other chunks. The shard's peak memory is
printed beside the estimate of `sluice check` and beside that of a nearly empty
shard.
"""

import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import report
from peers import programs

STARTING_S = 2.0  # Time of a run before its updates count.
FEATURES = 4096

JOB = """
cluster {{ workers: 1 shards: 1 }}
optimizer {{ learning_rate: 1e-6 adam {{}} }}
data {{
  linear_regression {{ features: {features} train_samples: 64 }}
  batch_size: 2
}}
model {{ layer {{ dense {{ units: {units} }} }} layer {{ dense {{ units: 1 }} }} }}
evaluation {{ enabled: false }}
output {{ metrics_every_s: 0.1 }}
stop {{ seconds: {seconds} }}
"""


def peak_bytes(job):
    """Peak memory so far of the shard that reads `job`; 0 if there is none."""
    server = report.find_part(job, "--shard=0")
    try:
        lines = (server / "status").read_text().splitlines() if server else []
    except OSError:  # It has ended.
        return 0
    return max((int(line.split()[1]) * 1024 for line in lines
                if line.startswith("VmHWM:")), default=0)


def train(args, job, *sets):
    """(updates a second, peak bytes of the shard, summary) of one run."""
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        run = pathlib.Path(folder, "run")
        process = subprocess.Popen(
            [args.tool, "train", job, "--run-dir", run,
             *(w for s in sets for w in ("--set", s))],
            stdout=subprocess.DEVNULL, preexec_fn=report.ends_with_this)
        peak = 0
        try:
            deadline = time.monotonic() + args.seconds + report.DEADLINE_S
            while process.poll() is None and time.monotonic() < deadline:
                peak = max(peak, peak_bytes(run / "job.textproto"))
                # The system records the peak, so polling does not miss it.
                time.sleep(0.2)
        finally:
            report.end(process)  # If it goes on.
        assert process.returncode == 0
        assert peak, f"no look at the memory of the shard of {run}"
        summary = json.loads((run / "summary.json").read_text())
        first, last = report.metrics_from(
            run, min(STARTING_S, args.seconds / 4))
    rate = (last["version"] - first["version"]) / (last["seconds"] -
                                                   first["seconds"])
    return rate, peak, summary


def stated_bytes(args, job, *sets):
    checked = programs.output_of([args.tool, "check", job, "--json",
                                  *(w for s in sets for w in ("--set", s))])
    return json.loads(checked)["shards"][0]["memory_bytes"]["total"]


def empty_process(args, folder):
    """Peak bytes of a shard of 16 units."""
    job = pathlib.Path(folder, "empty.textproto")
    job.write_text(JOB.format(features=FEATURES, units=16,
                              seconds=min(4, args.seconds)))
    return train(args, job)[1]


def main():
    parser = report.run_options(__doc__.splitlines()[0], rounds=3, every=10,
                                units=8128, tiny="a second, once")
    parser.add_argument("--seconds", type=report.positive, default=20,
                        help="of each run")
    args = parser.parse_args()
    if args.tiny:
        args.rounds, args.seconds, args.every, args.units = 1, 1, 0.2, 16
    stored = f"checkpoint.every_s={args.every}"
    rounds, peaks, written, late = [], [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder, "job.textproto")
        job.write_text(JOB.format(features=FEATURES, units=args.units,
                                  seconds=args.seconds))
        stated = stated_bytes(args, job, stored)
        empty = empty_process(args, folder)
        for _ in range(args.rounds):
            without, _, _ = train(args, job)
            rate, peak, summary = train(args, job, stored)
            rounds.append((rate, without))
            peaks.append(peak)
            assert not summary["checkpoints"]["failed"], summary
            written += summary["checkpoints"]["written"]
            late += summary["checkpoints"]["late"]
    ratio = statistics.median(rate / without for rate, without in rounds)
    measured = statistics.median(rate for rate, _ in rounds)
    found = report.Report("checkpoint", __doc__.splitlines()[0])
    found.add(f"updates, a checkpoint every {args.every:g} s", "1/s",
              "0.9 of without", 0.9 * measured / ratio, measured,
              of_without=ratio)
    found.add("memory stated over a shard's peak", "bytes / byte",
              "at least 1", 1, (stated + empty) / max(peaks),
              stated_bytes=stated, empty_process_bytes=empty,
              peak_bytes=max(peaks))
    found.note(f"{written} checkpoints written, {late} late")
    found.print(args.json)


if __name__ == "__main__":
    main()
