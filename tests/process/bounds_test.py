#!/usr/bin/python3 -B
"""Bounds on staleness and STATIC data through the real daemons, checked in the
commit log of a run with stragglers."""

import collections
import unittest

import harness
import ledger

WORKERS = 3
BATCHES = 80  # Two epochs of 1280 samples in mini-batches of 32.


class BoundsTest(unittest.TestCase):

    def run_async(self, bound, action):
        """Runs ASYNC with three workers, one of them ten times slower."""
        run = harness.train(
            harness.write_job(harness.LINEAR_JOB), f"--workers={WORKERS}",
            *harness.sets(["sync.policy=ASYNC",
                           f"sync.staleness={{bound: {bound} action: {action}}}",
                           "delays={compute {exponential {mean_ms: 3}} "
                           "worker_factor: 10}"]))
        books = ledger.Ledger(run.dir / "commit_log")
        books.check(self)
        applied = sorted(b for c in books.commits.values() for b in c)
        self.assertEqual(applied, list(range(BATCHES)))
        return books

    def staleness(self, books):
        return [entry.staleness for entry in books.entries]

    def test_drop_refuses_what_is_staler_and_computes_it_again(self):
        books = self.run_async(1, "DROP")
        self.assertLessEqual(max(self.staleness(books)), 1)
        self.assertGreater(books.count("dropped"), 0)

    def test_cancel_revokes_what_would_become_staler(self):
        books = self.run_async(1, "CANCEL")
        self.assertLessEqual(max(self.staleness(books)), 1)
        self.assertGreater(books.count("cancelled"), 0)
        self.assertEqual(books.count("dropped"), 0)

    def test_downweight_divides_the_weight(self):
        books = self.run_async(1, "DOWNWEIGHT")
        for entry in books.entries:
            self.assertAlmostEqual(
                entry.weight, 1 / (1 + max(0, entry.staleness - 1)), places=6)
        self.assertGreater(max(self.staleness(books)), 1)

    def test_wait_holds_back_who_is_ahead(self):
        books = self.run_async(2, "WAIT")
        delivered = collections.Counter()
        furthest = 0
        for kind, worker in books.order:
            if kind == "applied":
                delivered[worker] += 1
            else:
                ahead = delivered[worker] - min(
                    delivered[w] for w in range(WORKERS))
                self.assertLessEqual(ahead, 2)
                furthest = max(furthest, ahead)
        self.assertEqual(furthest, 2)

    def test_static_data_stays_with_its_worker(self):
        for policy in ("SYNC", "ASYNC"):
            run = harness.train(
                harness.write_job(harness.LINEAR_JOB), "--workers=2",
                *harness.sets([f"sync.policy={policy}",
                               "data.sharding=STATIC"]))
            books = ledger.Ledger(run.dir / "commit_log")
            books.check(self)
            self.assertEqual(len(books.entries), BATCHES)
            for entry in books.entries:
                self.assertEqual(entry.worker, entry.first_batch % 2)


if __name__ == "__main__":
    harness.main()
