"""The Python side of bench/report.h: prints the results of a benchmark, as a
table or as JSON of the same shape. More is better in every row. Also has what
benchmarks of real runs share: their options, how to find a run's processes,
and how to wait for them."""

import argparse
import ctypes
import json
import math
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEADLINE_S = 120  # For anything that is waited for.
POLL_S = 0.01     # Between two looks at another process.

# SIGTERM ends a benchmark as Ctrl-C does: what it has started ends before it,
# and its folders go.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def ends_with_this():
    """For the preexec_fn of a process: it is told to end when this one dies."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def whole(text):
    """For the type of an argument: a whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(
            f"expected a whole number above 0, got {text!r}")
    return int(text)


def positive(text):
    """For the type of an argument: a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(
            f"expected a number above 0, got {text!r}")
    return value


def run_options(question, *, rounds, every, units, tiny):
    """The parser of a benchmark that trains a model of `units` units in real
    daemons, with a checkpoint every few seconds."""
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true", help=tiny)
    parser.add_argument("--rounds", type=whole, default=rounds)
    parser.add_argument("--every", type=float, default=every,
                        help="seconds between two checkpoints")
    parser.add_argument("--units", type=whole, default=units)
    parser.add_argument("--folder", help="where the runs' folders are made")
    parser.add_argument("--tool", default=ROOT / "bazel-bin/cli/sluice",
                        help="the built sluice")
    return parser


def find_part(job, argument):
    """The /proc folder of the process of `job` with that argument, such as
    --shard=1 or --worker=3; None if there is none."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        if f"--job={job}" in words and argument in words:
            return entry
    return None


def metrics_from(run, starting_s):
    """The line of the run's metrics from which on it counts as under way: the
    last in its first `starting_s`, or the first with an update where that is
    later, as where processes take longer to start; and the last line of all."""
    lines = [json.loads(line) for line in open(run / "metrics.jsonl")]
    updated = [line for line in lines if line["version"] > 0]
    first = next((line for line in reversed(updated)
                  if line["seconds"] <= starting_s), [*updated, lines[-1]][0])
    if first["version"] == lines[-1]["version"]:
        sys.exit(f"{run}: expected updates after {first['seconds']:.3g} s of its "
                 f"{lines[-1]['seconds']:.3g} s, has none")
    return first, lines[-1]


def updates_from(run, version):
    """The lines of the run's metrics that first show `version`, and the last
    version. Both are late by up to output.metrics_every_s; the last line of all,
    which comes with the run's end, is not late, and would make the time between
    them too short."""
    lines = [json.loads(line) for line in open(run / "metrics.jsonl")]
    first, last = (next(line for line in lines if line["version"] >= v)
                   for v in (version, lines[-1]["version"]))
    if first["version"] == last["version"]:
        sys.exit(f"{run}: expected updates after version {version}, ends with "
                 f"version {last['version']}")
    return first, last


def end(process):
    """Tells a process to end and waits until it has; kills it where it does not
    for DEADLINE_S, which is an error."""
    process.terminate()
    try:
        process.wait(DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        sys.exit(f"{process.args}: has not ended {DEADLINE_S} s after SIGTERM")


def wait_for(look, what, process):
    """What `look` gives, once that is something; while `process` lives."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        value = look()
        if value:
            return value
        assert process.poll() is None, f"ended while waiting for {what}"
        time.sleep(POLL_S)
    raise AssertionError(f"waited {DEADLINE_S} s for {what}")


class Report:
    def __init__(self, name, question):
        self.name, self.question = name, question
        self.rows, self.notes = [], []

    def add(self, what, unit, expected_from, expected, measured, **more):
        self.rows.append({
            "what": what, "unit": unit, "expected_from": expected_from,
            "expected": expected, "measured": measured,
            "ratio": measured / expected, **more})

    def note(self, text):
        self.notes.append(text)

    def print(self, as_json):
        if as_json:
            print(json.dumps(vars(self), indent=2))
            return
        print(f"{self.question}\n{'':36} {'measured':>12} {'expected':>12} "
              f"{'ratio':>6}  unit, expected from")
        fixed = {"what", "unit", "expected_from", "expected", "measured", "ratio"}
        for row in self.rows:
            more = "".join(f", {name} {value:.4g}" for name, value in row.items()
                           if name not in fixed)
            print(f"{row['what']:36} {row['measured']:12.5g} "
                  f"{row['expected']:12.5g} {row['ratio']:6.2f}  {row['unit']}, "
                  f"{row['expected_from']}{more}")
        for note in self.notes:
            print(note)
