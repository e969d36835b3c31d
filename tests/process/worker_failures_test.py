#!/usr/bin/python3 -B
"""If a worker is killed or paused during a run, every gradient still gets its
verdict, every mini-batch its update, and the run goes on."""

import signal
import unittest

import cluster
import harness
import ledger

# Shorter than the default, so that a test waits less for a silent worker, and
# long enough for shards on a busy machine, which have the same lease.
LEASE = "limits.lease_s=2"
# Several seconds of updates.
EPOCHS = 100
# Keeps a run from being over before its status is read, on a busy machine.
SLOW = "delays.compute.constant.ms=2"


def check_books(test, run, batches):
    """Checks that every task has one verdict and that every mini-batch was
    applied once."""
    books = ledger.Ledger(run.dir / "commit_log")
    books.check(test)
    same = harness.tool("ledger", run.dir)
    test.assertEqual(same.returncode, 0, same.stdout + same.stderr)
    test.assertEqual(sorted(b for c in books.commits.values() for b in c),
                     list(range(batches)))
    for outcome, count in run.summary["gradients"].items():
        if outcome in ledger.OUTCOMES.values():
            test.assertEqual(count, books.count(outcome), outcome)


class WorkerFailuresTest(unittest.TestCase):

    def kill_one(self, policy):
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", f"epochs: {EPOCHS}"))
        k = [] if policy in ("SYNC", "ASYNC") else ["sync.k=2"]
        with cluster.Training(job, "--workers=3", *harness.sets(
                [f"sync.policy={policy}", LEASE, SLOW, *k])) as run:
            run.await_version(20)
            run.signal("worker-1", signal.SIGKILL)
            status = run.await_status(
                lambda s: s["worker"][1]["state"] in ("suspect", "dead")
                or s["worker"][1]["incarnation"] == 2,
                "the status to name worker 1")
            for other in (0, 2):
                self.assertNotIn(status["worker"][other]["state"],
                                 ("suspect", "dead"))
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertRegex(output, r"worker-1: killed by signal 9")
            check_books(self, run, 40 * EPOCHS)

    def test_sync_goes_on_when_a_worker_is_killed(self):
        self.kill_one("SYNC")

    def test_k_sync_goes_on_when_a_worker_is_killed(self):
        self.kill_one("K_SYNC")

    def test_k_batch_sync_goes_on_when_a_worker_is_killed(self):
        self.kill_one("K_BATCH_SYNC")

    def test_async_goes_on_when_a_worker_is_killed(self):
        self.kill_one("ASYNC")

    def test_k_async_goes_on_when_a_worker_is_killed(self):
        self.kill_one("K_ASYNC")

    def test_k_batch_async_goes_on_when_a_worker_is_killed(self):
        self.kill_one("K_BATCH_ASYNC")

    def test_a_paused_worker_is_replaced_and_joins_again(self):
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "seconds: 600"))
        with cluster.Training(job, *harness.sets([LEASE])) as run:
            run.await_version(20)
            run.signal("worker-1", signal.SIGSTOP)
            status = run.await_status(
                lambda s: s["worker"][1]["state"] == "cut off",
                "the paused worker's lease to expire")
            # Under SYNC no version is made without the mini-batch that the
            # worker held.
            run.await_version(status["version"] + 20)
            run.signal("worker-1", signal.SIGCONT)
            back = run.await_status(
                lambda s: s["worker"][1]["incarnation"] == 2,
                "worker 1 to join again")
            delivered = back["worker"][1]["gradients"]["applied"]
            run.await_status(
                lambda s: s["worker"][1]["gradients"]["applied"] > delivered,
                "a further gradient of worker 1")
            run.interrupt()
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertIn("event=new_life incarnation=2", run.log("worker-1"))
            ledger.Ledger(run.dir / "commit_log").check(self)


if __name__ == "__main__":
    harness.main()
