#!/usr/bin/python3 -B
"""Daemons started by hand: when a shard or the coordinator dies, every other
process ends within 10 seconds, not well, and names it. The evaluator and
workers may come and go."""

import signal
import subprocess
import time
import unittest

import harness

# Until recovery exists.
ALL_GONE_S = 10


class ByHand:
    """Two shards, two workers and an evaluator, without `sluice train`."""

    def __init__(self):
        self.dir = harness.scratch()
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "seconds: 600"))
        self.lead, other = (f"127.0.0.1:{p}" for p in harness.free_ports(2))
        at = [f"--job={job}", f"--coordinator={self.lead}"]
        commands = {
            "shard 0": [harness.PS_SERVER, "--shard=0",
                        f"--listen={self.lead}", f"--job={job}"],
            "shard 1": [harness.PS_SERVER, "--shard=1", f"--listen={other}",
                        *at],
            "worker 0": [harness.WORKER, "--worker=0", *at],
            "worker 1": [harness.WORKER, "--worker=1", *at],
            "evaluator": [harness.EVALUATOR, f"--run-dir={self.dir}", *at],
        }
        self.processes = {}
        for name, command in commands.items():
            with open(self.dir / name, "w") as log:
                self.processes[name] = subprocess.Popen(command, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def log(self, name):
        return (self.dir / name).read_text()

    def await_training(self):
        def training():
            status = harness.tool("status", self.lead, "--json")
            return '"phase": "running"' in status.stdout
        harness.wait_until(training, "the run to begin",
                           self.processes["shard 0"])


class PartFailuresTest(unittest.TestCase):

    def kill(self, name, named):
        with ByHand() as run:
            run.await_training()
            run.processes[name].send_signal(signal.SIGKILL)
            deadline = time.monotonic() + ALL_GONE_S
            for other, process in run.processes.items():
                if other == name:
                    continue
                with self.subTest(killed=name, ended=other):
                    status = process.wait(
                        timeout=max(0.1, deadline - time.monotonic()))
                    self.assertNotEqual(status, 0, run.log(other))
                    self.assertIn(named(run), run.log(other).split(
                        "event=failed")[-1])

    def test_the_death_of_a_shard_ends_every_process_and_is_named(self):
        self.kill("shard 1", lambda run: "shard 1")

    def test_the_death_of_the_coordinator_ends_every_process_and_is_named(self):
        self.kill("shard 0", lambda run: f"coordinator at {run.lead}")


if __name__ == "__main__":
    harness.main()
