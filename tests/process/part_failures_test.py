#!/usr/bin/python3 -B
"""Daemons started by hand: whoever dies and is started again, as systemd does,
finds the run going on. Where that cannot be, every other process ends within 10
seconds, not well, and names who died."""

import json
import signal
import subprocess
import time
import unittest

import harness

ALL_GONE_S = 10


class ByHand:
    """Two shards, two workers and an evaluator, without `sluice train`."""

    def __init__(self, run_dir=False):
        self.dir = harness.scratch()
        self.job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "seconds: 600"))
        self.lead, other = (f"127.0.0.1:{p}" for p in harness.free_ports(2))
        at = [f"--job={self.job}", f"--coordinator={self.lead}"]
        self.folder = [f"--run-dir={self.dir / 'run'}"] if run_dir else []
        self.commands = {
            "shard 0": [harness.PS_SERVER, "--shard=0",
                        f"--listen={self.lead}", f"--job={self.job}",
                        *self.folder],
            "shard 1": [harness.PS_SERVER, "--shard=1", f"--listen={other}",
                        *at],
            "worker 0": [harness.WORKER, "--worker=0", *at],
            "worker 1": [harness.WORKER, "--worker=1", *at],
            "evaluator": [harness.EVALUATOR, f"--run-dir={self.dir}", *at],
        }
        self.processes = {}
        for name in self.commands:
            self.start(name)

    def start(self, name, *flags):
        with open(self.dir / name, "a") as log:
            self.processes[name] = subprocess.Popen(
                [*self.commands[name], *flags], stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def log(self, name):
        return (self.dir / name).read_text()

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def await_status(self, holds, what):
        def look():
            result = harness.tool("status", self.lead, "--json")
            status = json.loads(result.stdout) if not result.returncode else {}
            return status if status and holds(status) else None
        return harness.wait_until(look, what, self.processes["shard 0"])

    def await_training(self, generation=1):
        """Versions are made in a generation; how it stands."""
        begun = self.await_status(
            lambda s: s["generation"] == generation and s["phase"] == "running",
            f"generation {generation} to run")
        return self.await_status(
            lambda s: s["version"] > begun["version"], "a further version")


class PartFailuresTest(unittest.TestCase):

    def gone(self, run, killed, named):
        deadline = time.monotonic() + ALL_GONE_S
        for other, process in run.processes.items():
            if other == killed:
                continue
            with self.subTest(killed=killed, ended=other):
                status = process.wait(
                    timeout=max(0.1, deadline - time.monotonic()))
                self.assertNotEqual(status, 0, run.log(other))
                self.assertIn(named, run.log(other).split("event=failed")[-1])

    def test_without_a_run_folder_the_death_of_a_shard_ends_every_process(self):
        with ByHand() as run:
            run.await_training()
            run.kill("shard 1")
            self.gone(run, "shard 1", "shard 1")

    def test_the_death_of_the_coordinator_ends_every_process_and_is_named(self):
        with ByHand(run_dir=True) as run:
            run.await_training()
            run.kill("shard 0")
            self.gone(run, "shard 0", f"coordinator at {run.lead}")
            self.assertEqual(run.processes["worker 0"].returncode, 75)
            self.assertEqual(run.processes["shard 1"].returncode, 75)

    def test_who_is_started_again_finds_the_run_going_on(self):
        with ByHand(run_dir=True) as run:
            run.await_training()
            run.kill("shard 1")
            run.start("shard 1")
            run.await_training(generation=2)
            run.kill("shard 0")
            run.start("shard 0", "--resume")
            status = run.await_training(generation=3)
            self.assertEqual(status["recovery"]["reason"],
                             "shard 0 was started again")
            run.processes["shard 0"].send_signal(signal.SIGINT)
            for name, process in run.processes.items():
                self.assertEqual(process.wait(timeout=harness.TIMEOUT_S), 0,
                                 run.log(name))

    def test_the_first_start_with_resume_begins_the_run(self):
        with ByHand(run_dir=True) as run:
            run.kill("shard 0")
            run.start("shard 0", "--resume")
            self.assertLessEqual(
                run.await_status(lambda s: s["phase"] == "running",
                                 "the run to begin")["generation"], 2)

    def test_the_older_of_two_leads_finds_out_and_ends(self):
        with ByHand(run_dir=True) as run:
            run.await_training()
            (port,) = harness.free_ports(1)
            run.commands["newer"] = [
                harness.PS_SERVER, "--shard=0", f"--listen=127.0.0.1:{port}",
                f"--job={run.job}", *run.folder, "--resume"]
            run.start("newer")
            older = run.processes["shard 0"]
            self.assertEqual(older.wait(timeout=ALL_GONE_S), 3,
                             run.log("shard 0"))
            self.assertIn("another process has taken the next generation",
                          run.log("shard 0").split("event=failed")[-1])
            self.assertIsNone(run.processes["newer"].poll())


if __name__ == "__main__":
    harness.main()
