#!/usr/bin/python3 -B
"""Daemons that are started by hand, in an unusual order, find each other."""

import json
import signal
import subprocess
import time
import unittest

import by_hand
import harness


class ByHandTest(unittest.TestCase):

    def test_whoever_is_early_waits_and_the_run_ends_well(self):
        folder = harness.scratch() / "run"
        folder.mkdir()
        job = harness.write_job(harness.LINEAR_JOB)
        lead = f"127.0.0.1:{harness.reserve_port()}"
        at = [f"--job={job}", f"--coordinator={lead}"]
        commands = {
            "worker-1": [harness.WORKER, "--worker=1", *at],
            "evaluator": [harness.EVALUATOR, f"--run-dir={folder}", *at],
            "ps_server-1": [harness.PS_SERVER, "--shard=1",
                            "--listen=127.0.0.1:0", *at],
            "ps_server-0": [harness.PS_SERVER, "--shard=0",
                            f"--listen={lead}", f"--run-dir={folder}",
                            f"--job={job}"],
            "worker-0": [harness.WORKER, "--worker=0", *at],
        }
        processes = {}
        try:
            for name, command in commands.items():
                log = open(folder / f"{name}.log", "w")
                processes[name] = subprocess.Popen(command, stderr=log,
                                                   stdout=log)
                if name == "worker-1":
                    # It says whom it waits for while no other process is there.
                    harness.wait_until(
                        lambda: lead in (folder / "worker-1.log").read_text(),
                        "worker 1 to name the coordinator", processes[name])
            for name, process in processes.items():
                self.assertEqual(
                    process.wait(timeout=harness.TIMEOUT_S), 0,
                    f"{name}: " + (folder / f"{name}.log").read_text())
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
        summary = json.loads((folder / "summary.json").read_text())
        self.assertEqual(summary["gradients"]["applied"], 80)
        addresses = (folder / "addresses").read_text()
        self.assertIn(f"coordinator {lead}", addresses)
        self.assertRegex(addresses, r"shard 1 127\.0\.0\.1:[1-9]\d*\n")

    def test_a_run_whose_processes_are_all_stopped_ends_at_once(self):
        with by_hand.ByHand(run_dir=True) as run:
            run.await_training()
            began = time.monotonic()
            for process in run.processes.values():
                process.send_signal(signal.SIGTERM)
            for name, process in run.processes.items():
                self.assertEqual(process.wait(timeout=harness.TIMEOUT_S), 0,
                                 run.log(name))
            # The evaluator is not waited for, 60 s.
            self.assertLess(time.monotonic() - began, 40)
            self.assertIn('reason="the evaluator was stopped, too"',
                          run.log("shard 0"))
            summary = json.loads((run.dir / "run/summary.json").read_text())
            self.assertEqual(summary["reason"], "stopped by SIGTERM")

    def test_whoever_stops_a_run_whose_lead_then_dies_is_told(self):
        with by_hand.ByHand(run_dir=True) as run:
            run.await_training()
            run.processes["evaluator"].send_signal(signal.SIGSTOP)
            folder = run.dir / "run"
            stopping = subprocess.Popen(
                [harness.TOOL, "stop", folder], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertRegex(
                stopping.stderr.readline(),
                r"^stop: \d+ s, version \d+, waiting for .*evaluator")
            run.kill("shard 0")
            said, error = stopping.communicate(timeout=harness.TIMEOUT_S)
            self.assertEqual(stopping.returncode, 1, said)
            self.assertIn(f"{folder}: the coordinator answers no more and has "
                          "left no summary.json; the run was finishing: ",
                          error)
    def test_a_shard_that_is_told_to_end_does_not_wait_for_a_lead(self):
        with by_hand.ByHand(start=["shard 1"]) as run:
            shard = run.processes["shard 1"]
            harness.wait_until(lambda: "event=listening" in run.log("shard 1"),
                               "shard 1 to listen", shard)
            shard.send_signal(signal.SIGTERM)
            self.assertEqual(shard.wait(timeout=harness.TIMEOUT_S), 0,
                             run.log("shard 1"))
            self.assertIn("(told to end)", run.log("shard 1"))


if __name__ == "__main__":
    harness.main()
