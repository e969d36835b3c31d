#!/usr/bin/python3 -B
"""Every job in configs/ trains: a few updates through the real daemons."""

import subprocess
import unittest

import harness

UPDATES = 3


class ConfigsTest(unittest.TestCase):
    """One test for each job file."""


def cifar(folder):
    """Overrides that set a job's CIFAR files to one file of 8 images, of
    classes 0 to 7."""
    path = folder / "images.bin"
    path.write_bytes(b"".join(
        bytes([label]) + bytes([32 * label]) * 3072 for label in range(8)))
    # Whole mini-batches, as with the real files, so that the prepared
    # operations run.
    return ["--set", f'data.cifar={{train: "{path}" test: "{path}"}}',
            "--set", "data.batch_size=8", "--set", "evaluation.batch_size=8"]


def text(folder):
    """Overrides that set a job's text to a file of 2000 bytes."""
    path = folder / "text"
    path.write_bytes(bytes(i * i % 256 for i in range(2000)))
    return ["--set", f'data.text={{train: "{path}" test: "{path}"}}']


def image_tree(folder):
    """Overrides that set a job's images to a tree of a few, and one worker."""
    subprocess.run([harness.ROOT / "tools/make_image_tree.py", folder,
                    "--train", "40", "--test", "8"], check=True)
    return harness.sets([
        f'data.jpeg={{train: "{folder}/train" test: "{folder}/test" '
        'on_damage: SKIP}', "data.batch_size=1", "cluster={workers: 1}",
        "sync.gradients_per_update=1", "evaluation.batch_size=1"])


def trains(job):
    @unittest.skipIf(harness.SANITIZER == "asan" and job.stem == "synthetic_resnet50",
                     "at its end each process looks for leaks for longer than "
                     "the launcher waits")
    def test(self):
        words = ["--set", f"stop={{updates: {UPDATES}}}"]
        if job.stem.startswith("cifar"):
            words += cifar(harness.scratch())
        if job.stem.startswith("text"):
            words += text(harness.scratch())
        if job.stem == "imagenet_resnet50":
            words += image_tree(harness.scratch())
        if job.stem == "synthetic_resnet50":
            words += ["--set", "data.batch_size=1",
                      "--set", "data.synthetic_images.test_samples=1"]
        run = harness.train(job, *words)
        self.assertEqual(run.summary["version"], UPDATES)
        self.assertTrue((run.dir / "weights.safetensors").is_file())
    return test


def load():
    jobs = sorted((harness.ROOT / "configs").glob("*.textproto"))
    for job in jobs:
        setattr(ConfigsTest, f"test_{job.stem}", trains(job))
    return jobs


assert len(load()) >= 10, "where are the jobs?"

if __name__ == "__main__":
    harness.main()
