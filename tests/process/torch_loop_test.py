#!/usr/bin/python3 -B
"""What a loop over sluice.torch's mini-batches may do with its model, what is
said of what it must not, and where in the run it is."""

import dataclasses
import unittest

import harness
from fake_worker import FakeTask, model_and_optimizer


@harness.suite("torch")
class EpochTest(unittest.TestCase):

    def epochs(self, mini_batches, **job):
        """In samples."""
        _, opt, worker = model_and_optimizer(
            *[FakeTask(n) for n in range(mini_batches)])
        worker.description = dataclasses.replace(worker.description, **job)
        samples = job["train_samples"]
        found = []
        for _ in opt.batches([0.0] * samples):
            found.append(opt.epoch * samples)
            opt.step(0.0)
        return found

    def test_an_epoch_begins_at_a_whole_number_after_a_short_mini_batch(self):
        self.assertEqual(
            self.epochs(5, train_samples=110, batch_size=100),
            [0, 100, 110, 210, 220])
        # One that is longer than all samples.
        self.assertEqual(self.epochs(3, train_samples=2, batch_size=100),
                         [0, 2, 4])

    def test_static_partitions_take_turns_as_in_the_clusters_batch_grid(self):
        # The example in common/batch_grid.cc.
        self.assertEqual(
            self.epochs(7, train_samples=9, batch_size=4, partitions=2),
            [0, 4, 8, 9, 9 + 4, 9 + 8, 18])


if __name__ == "__main__":
    harness.main()
