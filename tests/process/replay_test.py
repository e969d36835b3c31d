#!/usr/bin/python3 -B
"""A recorded run of the real daemons is recomputed from its commit log in one
process, to the same bits (guarantee 5)."""

import json
import signal
import struct
import unittest

import cluster
import harness
import ledger


class ReplayTest(unittest.TestCase):

    def replay(self, folder):
        result = harness.tool("replay", folder, "--json")
        self.assertIn(result.returncode, (0, 1), result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(result.returncode, 0 if report["same"] else 1)
        return report

    def same(self, folder):
        report = self.replay(folder)
        summary = json.loads((folder / "summary.json").read_text())
        self.assertTrue(report["same"], report)
        self.assertEqual(report["weights_sha256"], summary["weights_sha256"])
        self.assertEqual(report["version"], summary["version"])
        self.assertEqual(report["gradients"], summary["gradients"]["applied"])
        return report

    def test_an_asynchronous_run_whose_shards_gave_different_versions(self):
        job = harness.write_job(harness.LINEAR_JOB)
        run = harness.train(job, "--workers=4", *harness.sets(
            ["sync.policy=ASYNC", "optimizer.learning_rate=0.005",
             "stop.epochs=25", "output.digest_every_updates=10"]))
        books = ledger.Ledger(run.dir / "commit_log")
        different = [e for e in books.entries if len(set(e.bases)) > 1]
        self.assertGreater(len(different), 0)
        report = self.same(run.dir)
        # Three tensor parts on the two shards, for every tenth version.
        self.assertGreaterEqual(report["digests"], 100)

    def test_a_run_whose_commits_end_other_tasks(self):
        job = harness.write_job(harness.LINEAR_JOB)
        run = harness.train(job, "--workers=3", *harness.sets(
            ["sync.policy=K_SYNC", "sync.k=1", "stop.epochs=25",
             "output.digest_every_updates=10"]))
        report = self.same(run.dir)
        # The Discards that follow a Commit at once take no digest away; the last
        # may come when the log has ended.
        self.assertGreaterEqual(report["digests"],
                                3 * (report["version"] // 10 - 1))

    def test_a_k_batch_async_run_with_a_killed_worker(self):
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "epochs: 100"))
        with cluster.Training(job, "--workers=3", *harness.sets(
                ["sync.policy=K_BATCH_ASYNC", "sync.k=2", "limits.lease_s=2"]
                )) as run:
            run.await_version(20)
            run.signal("worker-1", signal.SIGKILL)
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertIn("worker-1: killed by signal 9", output)
            self.same(run.dir)

    def test_a_run_whose_log_is_cut_at_checkpoints(self):
        job = harness.write_job(harness.LINEAR_JOB)
        run = harness.train(job, *harness.sets(
            ["checkpoint.every_updates=10", "output.digest_every_updates=10"]))
        log = run.dir / "commit_log"
        self.assertIn(log.with_name("commit_log.10"), ledger.files(log))
        books = ledger.Ledger(log)
        books.check(self)
        self.assertTrue(all(len(e.bases) == 2 for e in books.entries))
        balanced = harness.tool("ledger", run.dir)
        self.assertEqual(balanced.returncode, 0, balanced.stdout)
        self.same(run.dir)

    def test_lenet_with_k_async(self):
        run = harness.train(harness.LENET, "--workers=2", *harness.sets(
            ["sync.policy=K_ASYNC", "sync.k=1", "stop.updates=8",
             "output.digest_every_updates=1"]))
        self.same(run.dir)

    def test_floats_of_two_bytes_on_the_wire(self):
        run = harness.train(harness.LENET, "--workers=2", *harness.sets(
            ["sync.policy=K_ASYNC", "sync.k=1", "stop.updates=8",
             "wire={ pull: BF16 push: FP16 }",
             "output.digest_every_updates=1"]))
        self.same(run.dir)

    def test_local_steps_with_adagrad(self):
        job = harness.write_job(harness.LINEAR_JOB)
        run = harness.train(job, *harness.sets(
            ["sync.policy=ASYNC", "sync.local_steps=3",
             "optimizer={ learning_rate: 0.01 adagrad {} }"]))
        self.same(run.dir)

    def test_a_log_that_was_tampered_with_is_named(self):
        job = harness.write_job(harness.LINEAR_JOB)
        run = harness.train(job, *harness.sets(
            ["sync.policy=ASYNC", "optimizer.learning_rate=0.005",
             "output.digest_every_updates=10"]))
        log = run.dir / "commit_log"
        whole = log.read_bytes()
        # Damage inside a record. A damaged length would look like a record cut
        # short.
        at = whole.index(struct.pack("<d", 0.005))
        log.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        result = harness.tool("replay", run.dir)
        self.assertEqual(result.returncode, 1)
        self.assertIn("commit_log", result.stderr)


if __name__ == "__main__":
    harness.main()
