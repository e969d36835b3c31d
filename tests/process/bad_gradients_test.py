#!/usr/bin/python3 -B
"""Gradients that are not finite, through the daemons: they are refused, the
run goes on or fails as documented, and it says why."""

import struct
import unittest

import harness
import ledger

SAMPLES = 64
POISON = 13


def write_idx(path, shape, data):
    path.write_bytes(struct.pack(">I", 0x0800 | len(shape)) +
                     struct.pack(f">{len(shape)}I", *shape) + bytes(data))


def poisoned_job():
    """A job with 16 mini-batches an epoch of black images. One sample is
    white, which this deviation makes too large for float32."""
    folder = harness.scratch()
    images = bytearray(SAMPLES * 16)
    images[POISON * 16:(POISON + 1) * 16] = b"\xff" * 16
    write_idx(folder / "images", (SAMPLES, 4, 4), images)
    write_idx(folder / "labels", (SAMPLES,), [i % 10 for i in range(SAMPLES)])
    job = folder / "job.textproto"
    job.write_text(f"""
name: "poisoned"
cluster {{ workers: 2 shards: 2 }}
sync {{ policy: SYNC }}
optimizer {{ learning_rate: 0.01 }}
data {{
  idx {{
    train_images: "{folder}/images" train_labels: "{folder}/labels"
    mean: 0 deviation: 1e-39
  }}
  batch_size: 4
}}
evaluation {{ enabled: false }}
model {{
  layer {{ flatten {{}} }}
  layer {{ dense {{ units: 10 }} }}
}}
stop {{ epochs: 2 }}
""")
    return job


class BadGradientsTest(unittest.TestCase):

    def test_a_poison_mini_batch_fails_the_run_and_is_named(self):
        run = harness.Run(poisoned_job())
        self.assertEqual(run.result.returncode, 1, run.logs())
        self.assertRegex(
            run.result.stderr,
            r"the run failed: diverged: version \d+, worker [01], mini-batch "
            r"\d+: shard \d at \S+: gradient \S+ is -?(nan|inf) in tensor "
            r"\w+\.weight at position \d+")
        # The mini-batch is computed twice and refused each time.
        self.assertEqual(run.summary["gradients"]["rejected"], 2)
        self.assertIn("diverged", run.summary["failure"])

    def test_a_poison_mini_batch_is_left_out_with_skip(self):
        run = harness.train(poisoned_job(),
                            *harness.sets(["sync.on_bad_gradient=SKIP"]))
        # Once per epoch, and computed twice each time.
        self.assertEqual(run.summary["batches_left_out"], 2)
        self.assertEqual(run.summary["gradients"]["rejected"], 4)
        self.assertEqual(run.summary["gradients"]["applied"], 30)
        self.assertIn("mini-batches left out 2", run.result.stdout)
        ledger.Ledger(run.dir / "commit_log").check(self)

    def test_the_books_count_what_was_left_out_in_mini_batches(self):
        run = harness.train(poisoned_job(),
                            *harness.sets(["sync.on_bad_gradient=SKIP",
                                           "sync.local_steps=2"]))
        # A task of two mini-batches, once per epoch.
        self.assertEqual(run.summary["batches_left_out"], 4)
        books = harness.tool("ledger", run.dir)
        self.assertEqual(books.returncode, 0, books.stdout)
        self.assertIn("exact: every gradient ended once", books.stdout)

    def test_a_rate_that_is_far_too_large_ends_as_diverged(self):
        run = harness.Run(harness.write_job(harness.LINEAR_JOB),
                          *harness.sets(["optimizer.learning_rate=1000000"]))
        self.assertEqual(run.result.returncode, 1, run.logs())
        self.assertRegex(run.result.stderr,
                         r"the run failed: diverged: version \d+, worker \d, "
                         r"mini-batch \d+: .* in tensor dense0\.")


if __name__ == "__main__":
    harness.main()
