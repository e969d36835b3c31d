#!/usr/bin/python3 -B
"""Daemons with --yield: SIGTERM means that they are to be started again, as a
pod that is evicted is, and the run goes on. `sluice stop` ends it."""

import json
import signal
import unittest

import by_hand
import harness

# Without the lead's own wish none is written.
JOB = "checkpoint { every_updates: 1000000 }\n"


class Yielding(by_hand.ByHand):

    def __init__(self, **kwargs):
        super().__init__(
            run_dir=True, job=JOB, **kwargs,
            flags=lambda name: ["--yield"] +
            (["--resume"] if name == "shard 0" else []))

    def evict(self, name):
        """Has it yield, and starts it again."""
        self.processes[name].send_signal(signal.SIGTERM)
        status = self.processes[name].wait(timeout=harness.TIMEOUT_S)
        self.start(name)
        return status


class YieldTest(unittest.TestCase):

    def test_whoever_is_evicted_comes_back_and_the_run_goes_on(self):
        with Yielding() as run:
            run.await_training()
            for name in ("worker 0", "evaluator"):
                self.assertEqual(run.evict(name), 75, run.log(name))
                self.assertIn("event=yielded", run.log(name))
            back = run.await_status(
                lambda s: s["worker"][0]["incarnation"] == 2 and
                s["worker"][0]["state"] in ("computing", "waiting"),
                "worker 0 to be back")
            self.assertEqual(back["generation"], 1)
            self.assertEqual(run.evict("shard 0"), 75, run.log("shard 0"))
            self.assertIn("event=yielding signal=SIGTERM", run.log("shard 0"))
            self.assertNotIn("event=not_stored", run.log("shard 0"))
            resumed = run.await_training(generation=2)
            self.assertGreater(resumed["recovery"]["restored_version"],
                               back["version"])
            self.assertEqual(run.evict("shard 1"), 75, run.log("shard 1"))
            run.await_training(generation=3)
            stopped = harness.tool("stop", run.dir / "run")
            self.assertEqual(stopped.returncode, 0, stopped.stderr)
            self.assertIn("test loss", stopped.stdout)
            for name, process in run.processes.items():
                self.assertEqual(process.wait(timeout=harness.TIMEOUT_S), 0,
                                 run.log(name))
            summary = json.loads((run.dir / "run/summary.json").read_text())
            self.assertEqual(summary["reason"], "stopped by the user")
            self.assertEqual(summary["failure"], "")

    def test_a_process_that_nobody_knows_yields_at_once(self):
        with Yielding(start=["worker 0"]) as run:
            worker = run.processes["worker 0"]
            harness.wait_until(
                lambda: 'event=waiting for="the coordinator"'
                in run.log("worker 0"), "worker 0 to wait", worker)
            worker.send_signal(signal.SIGTERM)
            self.assertEqual(worker.wait(timeout=harness.TIMEOUT_S), 75)


if __name__ == "__main__":
    harness.main()
