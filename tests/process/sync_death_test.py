#!/usr/bin/python3 -B
"""SYNC gives the bits of one process that trains alone even if a worker is
killed during the run (guarantee 4)."""

import signal
import subprocess
import unittest

import cluster
import harness


class SyncDeathTest(unittest.TestCase):

    def killed(self, job, *overrides):
        """The hash of a run that lost worker 1, and that of one that trained
        alone."""
        args = harness.sets(["sync.policy=SYNC", "limits.lease_s=2",
                             *overrides])
        alone = subprocess.run(
            [harness.REFERENCE_TRAIN, f"--job={job}", *args],
            capture_output=True, text=True, timeout=harness.TIMEOUT_S,
            check=True).stdout.split()[-1]
        with cluster.Training(job, "--workers=3", *args) as run:
            run.await_version(2)
            run.signal("worker-1", signal.SIGKILL)
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertIn("worker-1: killed by signal 9", output)
            return run.summary["weights_sha256"], alone

    def test_lenet_on_images(self):
        self.assertEqual(*self.killed(
            harness.LENET, "sync.gradients_per_update=4", "stop.updates=40",
            # So that it is killed well before the end.
            "delays.compute.constant.ms=20"))

    def test_a_linear_model_over_many_epochs(self):
        job = harness.write_job(harness.LINEAR_JOB)
        self.assertEqual(*self.killed(
            job, "sync.gradients_per_update=3", "stop.epochs=40"))


if __name__ == "__main__":
    harness.main()
