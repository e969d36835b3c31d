#!/usr/bin/python3 -B
"""Training loops in PyTorch under Sluice: those of python/examples."""

import difflib
import hashlib
import importlib.util
import os
import subprocess
import sys
import unittest

import harness

TORCH = importlib.util.find_spec("torch") is not None
EXAMPLE = harness.ROOT / "python/examples/fashion_mnist"
os.environ["PYTHONPATH"] = f"{harness.ROOT / 'python'}:{EXAMPLE}"


def python(program, *args):
    """What a program prints, which must succeed."""
    result = subprocess.run(
        [sys.executable, "-B", program, *args], capture_output=True, text=True,
        timeout=harness.TIMEOUT_S, cwd=harness.scratch())
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout.strip()


def write(text):
    path = harness.scratch() / "program.py"
    path.write_text(text)
    return path


# A model of a few floats with a batch norm, dropout, a tied and a frozen
# parameter, on samples that are a function of their index.
SMALL = """
import sys
import torch
from torch import nn
import sluice.torch

class Samples:
    def __len__(self):
        return 96
    def __getitem__(self, i):
        x = torch.linspace(-1, 1, 5) * (i % 7 - 3) + i % 3
        return x, x.sum(0, keepdim=True) / 2

def small():
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Dropout(0.2),
                          nn.Linear(5, 5), nn.Linear(5, 1))
    model[3].weight = model[0].weight
    model[4].bias.requires_grad_(False)
    return model

if len(sys.argv) > 1:
    sluice.torch.init(small(), sys.argv[1], train_samples=96, batch_size=8,
                      job='name: "small" cluster { workers: 2 } '
                          'optimizer { learning_rate: 0.05 sgd {} } '
                          'checkpoint { every_updates: 1000 } '
                          'stop { epochs: 2 }')
    sys.exit()

model = small()
opt = sluice.torch.Optimizer(model)
for x, y in opt.batches(Samples()):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    opt.step(loss)
"""


@unittest.skipUnless(TORCH, "python3-torch is not installed")
class TorchTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.program = write(SMALL)
        folder = harness.scratch()
        python(cls.program, str(folder))
        cls.job = folder / "job.textproto"

    def train(self, job, program, *args):
        return harness.train(job, *args, "--", sys.executable, "-B", program)

    def weights(self, run):
        """The file with the run's last weights."""
        path = harness.scratch() / "last.safetensors"
        exported = harness.tool("export", run.dir, path)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        return path

    def test_sync_has_the_same_bits_for_any_cluster(self):
        found = {}
        for workers, shards in [(1, 1), (2, 2), (3, 1)]:
            run = self.train(self.job, self.program, f"--workers={workers}",
                             f"--shards={shards}",
                             *harness.sets(["sync.gradients_per_update=2"]))
            found[workers, shards] = hashlib.sha256(
                self.weights(run).read_bytes()).hexdigest()
            self.assertEqual(run.summary["version"], 12)
        self.assertEqual(len(set(found.values())), 1, found)

    def test_the_loop_differs_from_a_plain_one_in_five_lines_at_most(self):
        plain, ours = [(EXAMPLE / name).read_text().splitlines()[2:]
                       for name in ("plain.py", "train.py")]
        changed = [line for line in difflib.ndiff(plain, ours)
                   if line.startswith("+ ")]
        self.assertLessEqual(len(changed), 5, changed)

    def test_the_example_learns(self):
        folder = harness.scratch()
        job = python(EXAMPLE / "make_job.py", str(folder))
        run = self.train(job, EXAMPLE / "train.py",
                         *harness.sets(["stop.updates=250"]))
        accuracy = float(python(write("""
import sys, torch, sluice.torch
from fashion_mnist import FashionMnist, LeNet, accuracy
model = LeNet()
sluice.torch.load(model, sys.argv[1])
print(accuracy(model, FashionMnist("t10k")))
"""), str(self.weights(run))))
        print(f"accuracy {accuracy:.4f} after 250 updates")
        self.assertGreater(accuracy, 0.7)

    def test_misuse_is_said(self):
        for old, new, said in [
                ("return 96", "return 95",
                 "the dataset has 95 samples, the job's "
                 "data.external.train_samples is 96"),
                ("nn.Linear(5, 1))", "nn.Linear(5, 2))",
                 "the model has ('4.weight', (2, 5), 'WEIGHT'), expected "
                 "('4.weight', (1, 5), 'WEIGHT') as the job says"),
                ("    opt.step(loss)\n", "",
                 "step(loss) was not called for mini-batch 0"),
                ("    opt.step(loss)\n", "    opt.step(loss)\n" * 2,
                 "step(loss) was called twice"),
                ("    loss.backward()\n",
                 "    loss.backward()\n    raise ValueError('no')\n",
                 "ValueError: no")]:
            with self.subTest(said=said):
                self.assertIn(old, SMALL)
                run = harness.Run(
                    self.job, "--workers=1",
                    *harness.sets(["stop.seconds=5"]), "--", sys.executable,
                    "-B", write(SMALL.replace(old, new)))
                self.assertIn(said, (run.dir / "worker-0.log").read_text())


if __name__ == "__main__":
    harness.main()
