#!/usr/bin/python3 -B
"""The identities between policies (docs/policies.md) hold through the daemons:
the same bits wherever the order of arrival cannot differ. With one worker it
never differs. With K = P it does not matter, because sums are in mini-batch
order."""

import unittest

import harness


class IdentitiesTest(unittest.TestCase):

    def hash_of(self, workers, *overrides):
        run = harness.train(harness.write_job(harness.LINEAR_JOB),
                            f"--workers={workers}", *harness.sets(overrides))
        return run.summary["weights_sha256"]

    def same(self, workers, *jobs):
        found = {" ".join(job): self.hash_of(workers, *job) for job in jobs}
        self.assertEqual(len(found), len(jobs))
        self.assertEqual(len(set(found.values())), 1, found)
        return found.popitem()[1]

    def test_k_sync_and_k_async_with_k_equal_to_p_are_sync(self):
        for workers in (1, 3):
            k = f"sync.k={workers}"
            same = self.same(workers, ["sync.policy=SYNC"],
                             ["sync.policy=K_SYNC", k],
                             ["sync.policy=K_ASYNC", k])
        # The comparison notices a difference.
        self.assertNotEqual(same, self.hash_of(
            3, "sync.policy=SYNC", "sync.gradients_per_update=2"))

    def test_one_gradient_per_update_is_the_same_under_every_policy(self):
        self.same(1, ["sync.policy=ASYNC"],
                  *([f"sync.policy={policy}", "sync.k=1"] for policy in (
                      "K_ASYNC", "K_BATCH_ASYNC", "K_BATCH_SYNC", "K_SYNC")))

    def test_k_batch_async_with_bound_0_and_cancel_is_k_batch_sync(self):
        self.same(1, ["sync.policy=K_BATCH_SYNC", "sync.k=3"],
                  ["sync.policy=K_BATCH_ASYNC", "sync.k=3",
                   "sync.staleness={ bound: 0 action: CANCEL }"],
                  # SYNC with as many gradients from one worker is the same too.
                  ["sync.policy=SYNC", "sync.gradients_per_update=3"])


if __name__ == "__main__":
    harness.main()
