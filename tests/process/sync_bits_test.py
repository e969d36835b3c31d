#!/usr/bin/python3 -B
"""SYNC gives the same bits for any number of workers and shards, and the same
bits as one process that trains alone (guarantee 4)."""

import json
import subprocess
import unittest

import harness

SYNC = ["sync.policy=SYNC", "sync.gradients_per_update=4"]


class SyncBitsTest(unittest.TestCase):

    def hashes(self, job, overrides, clusters=((1, 3), (2, 1), (4, 3))):
        alone = subprocess.run(
            [harness.REFERENCE_TRAIN, f"--job={job}",
             *harness.sets(overrides)],
            capture_output=True, text=True, timeout=harness.TIMEOUT_S,
            check=True)
        found = {"reference": alone.stdout.split()[-1]}
        for workers, shards in clusters:
            run = harness.train(
                job, f"--workers={workers}", f"--shards={shards}",
                *harness.sets(overrides))
            found[f"workers={workers} shards={shards}"] = (
                run.summary["weights_sha256"])
        print(json.dumps(found, indent=1))
        return found

    def test_lenet_on_images(self):
        found = self.hashes(
            harness.LENET, SYNC + ["stop.updates=5"],
            [(workers, shards) for workers in (1, 2, 4) for shards in (1, 3)])
        self.assertEqual(len(found), 7)
        self.assertEqual(len(set(found.values())), 1, found)

    def test_a_linear_model_over_two_epochs(self):
        # 40 mini-batches an epoch are not a multiple of 3, so updates span
        # epochs and the last one takes the rest.
        job = harness.write_job(harness.LINEAR_JOB)
        found = self.hashes(job, [SYNC[0], "sync.gradients_per_update=3"])
        self.assertEqual(len(set(found.values())), 1, found)

    def test_lenet_with_adam(self):
        # Weight decay leaves out the biases. So ranges that are computed
        # together begin and end at any float, and at different ones on each of
        # three shards.
        groups = ("group { tensor: '*.bias' weight_decay_factor: 1 } group { "
                  "tensor: 'conv2d0.weight' learning_rate_factor: 0.3 }")
        others = set()
        for kind in ("adam { weight_decay: 0.01 }", "adamw {}",
                     "adamw {} " + groups):
            found = self.hashes(harness.LENET, SYNC + [
                "stop.updates=3",
                "optimizer={ learning_rate: 0.002 %s }" % kind])
            self.assertEqual(len(set(found.values())), 1, found)
            others |= set(found.values())
        self.assertEqual(len(others), 3, others)

    def test_lenet_in_micro_batches_on_augmented_images(self):
        # 64 samples in parts of 24, 24 and 16.
        found = self.hashes(harness.LENET, SYNC + [
            "stop.updates=3", "worker.micro_batch=24",
            "data.augmentation={ crop_padding: 2 horizontal_flip: true }"])
        self.assertEqual(len(set(found.values())), 1, found)

    def test_a_linear_model_with_adagrad(self):
        job = harness.write_job(harness.LINEAR_JOB)
        found = self.hashes(job, [SYNC[0], "sync.gradients_per_update=3",
                                  "optimizer.adagrad={}"])
        self.assertEqual(len(set(found.values())), 1, found)

    def test_parameter_averaging(self):
        # 80 mini-batches in tasks of 3: the last task has 2, and the last
        # update has 3 tasks.
        job = harness.write_job(harness.LINEAR_JOB)
        found = self.hashes(job, SYNC + [
            "sync.local_steps=3", "optimizer.averaging={}",
            "schedule.cosine.epochs=2"])
        self.assertEqual(len(set(found.values())), 1, found)

    def test_batch_norm_dropout_and_adam(self):
        job = harness.write_job(harness.BATCH_NORM_JOB)
        self.check_that_no_border_is_a_multiple_of_a_vector(job)
        found = self.hashes(job, SYNC)
        self.assertEqual(len(set(found.values())), 1, found)
        # With room for fewer gradients than an update takes, shards fold them.
        for room in (1, 3):
            run = harness.train(
                job, "--workers=4", "--shards=3",
                *harness.sets(SYNC + [f"limits.staged_gradients={room}"]))
            self.assertEqual(run.summary["weights_sha256"],
                             found["reference"], room)
        # Early workers wait. Neither their order nor the assignment of
        # mini-batches to workers shows in the weights.
        for order in (
                ["ps_server-0", "ps_server-1", "worker-0", "worker-1",
                 "evaluator"],
                ["worker-1", "evaluator", "ps_server-1", "worker-0",
                 "ps_server-0"],
                ["ps_server-1", "worker-0", "ps_server-0", "evaluator",
                 "worker-1"]):
            summary = harness.train_by_hand(
                job, order, SYNC + ["cluster.workers=2", "cluster.shards=2"])
            self.assertEqual(summary["weights_sha256"], found["reference"],
                             order)

    def test_floats_of_two_bytes_on_the_wire(self):
        # FP16's groups lie at the same places of the vector for any number of
        # shards, and statistics keep their bits.
        job = harness.write_job(harness.BATCH_NORM_JOB)
        whole = self.hashes(job, SYNC)["reference"]
        for wire in ("pull: BF16 push: FP16", "pull: FP16 push: BF16"):
            found = self.hashes(job, SYNC + [f"wire={{ {wire} }}"])
            self.assertEqual(len(set(found.values())), 1, found)
            self.assertNotIn(whole, found.values())

    def test_parameter_averaging_with_floats_of_two_bytes(self):
        job = harness.write_job(harness.LINEAR_JOB)
        found = self.hashes(job, SYNC + [
            "sync.local_steps=3", "optimizer.averaging={}",
            "wire={ pull: BF16 push: FP16 }"])
        self.assertEqual(len(set(found.values())), 1, found)

    def test_micro_batches_with_batch_norm_dropout_and_clipping(self):
        # Parts of 6 samples, and a rest.
        job = harness.write_job(harness.BATCH_NORM_JOB)
        found = self.hashes(job, SYNC + ["worker.micro_batch=6",
                                         "worker.clip_norm=0.5"])
        self.assertEqual(len(set(found.values())), 1, found)
        # Without micro-batches the bits differ, so the setting took effect.
        whole = harness.train(job, *harness.sets(
            SYNC + ["worker.clip_norm=0.5"])).summary["weights_sha256"]
        self.assertNotIn(whole, found.values())

    def check_that_no_border_is_a_multiple_of_a_vector(self, job):
        """Checks that neither the shards' sizes nor the beginnings of the
        statistics are all multiples of 8 floats, so that bodies and tails of
        vectors lie at different places on every shard."""
        checked = harness.tool("check", job, "--json", "--set",
                               "cluster.shards=3")
        report = json.loads(checked.stdout)
        sizes = [s["end"] - s["begin"] for s in report["shards"]]
        self.assertTrue(any(size % 8 for size in sizes), sizes)
        statistics = [t for t in report["tensors"] if t["statistic"]]
        self.assertEqual(len(statistics), 6)
        self.assertTrue(all(t["size"] % 8 for t in statistics), statistics)
        # One of them spans two shards.
        self.assertIn(2, [len(t["shards"]) for t in statistics])

    def test_another_seed_gives_other_bits(self):
        job = harness.write_job(harness.LINEAR_JOB)
        one = harness.train(job, "--seed=1").summary["weights_sha256"]
        two = harness.train(job, "--seed=2").summary["weights_sha256"]
        self.assertNotEqual(one, two)


if __name__ == "__main__":
    harness.main()
