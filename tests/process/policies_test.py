#!/usr/bin/python3 -B
"""Every policy through the real daemons, with the books of each run."""

import re
import unittest

import harness
import ledger

POLICIES = ["SYNC", "K_SYNC", "K_BATCH_SYNC", "ASYNC", "K_ASYNC",
            "K_BATCH_ASYNC"]


class PoliciesTest(unittest.TestCase):

    def check_books(self, run, batches, local_steps=1):
        """Checks that every task has one verdict and that every mini-batch was
        applied once."""
        books = ledger.Ledger(next(run.dir.glob("commit*log*")))
        books.check(self)
        applied = sorted(b for c in books.commits.values() for b in c)
        self.assertEqual(applied, list(range(0, batches, local_steps)))
        counts = run.summary["gradients"]
        for outcome in ("applied", "cancelled", "dropped", "rejected"):
            self.assertEqual(counts[outcome], books.count(outcome), outcome)
        return books

    def run_policy(self, policy, *overrides, local_steps=1):
        job = harness.write_job(harness.LINEAR_JOB)
        k = [] if policy in ("SYNC", "ASYNC") else ["sync.k=2"]
        run = harness.train(job, "--workers=3", *harness.sets(
            [f"sync.policy={policy}", *k, *overrides,
             f"sync.local_steps={local_steps}"]))
        # Two epochs of 1280 samples in mini-batches of 32.
        self.check_books(run, 80, local_steps)
        # The model is exact. Its loss must have fallen to almost nothing from
        # about half the squared norm of 64 standard normal weights.
        self.assertLess(run.summary["test_loss"], 8)

    def test_parameter_averaging_converges(self):
        self.run_policy("SYNC", "optimizer.averaging={}",
                        "optimizer.learning_rate=0.1", local_steps=3)

    def test_downpour_converges(self):
        self.run_policy("ASYNC", "optimizer.adagrad={}",
                        "optimizer.learning_rate=0.2",
                        local_steps=3)

    def test_cancelled_work_really_stops(self):
        run = harness.train(harness.LENET, *harness.sets(
            ["sync.policy=K_SYNC", "sync.k=1", "stop.updates=12",
             "data.batch_size=256"]))
        books = ledger.Ledger(next(run.dir.glob("commit*log*")))
        self.assertGreater(run.summary["gradients"]["cancelled"], 0)
        self.assertEqual(run.summary["gradients"]["cancelled"],
                         books.count("cancelled"))
        self.assertTrue(all(len(e) == 1 for e in books.ends.values()))
        logs = "\n".join(p.read_text() for p in run.dir.glob("worker-*.log"))
        self.assertRegex(logs, re.compile("cancel"))


def _add(policy):
    def test(self):
        self.run_policy(policy)
    setattr(PoliciesTest, f"test_{policy.lower()}_ends_with_balanced_books",
            test)


for _policy in POLICIES:
    _add(_policy)


if __name__ == "__main__":
    harness.main()
