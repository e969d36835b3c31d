"""A small PyTorch program that trains under Sluice, for tests."""

import importlib
import os
import subprocess
import sys

import harness

EXAMPLES = harness.ROOT / "python/examples"
os.environ["PYTHONPATH"] = ":".join(
    str(harness.ROOT / folder) for folder in
    ("python", "python/examples/fashion_mnist", "python/examples/gpt"))

# A model of a few floats with a batch norm, dropout, a tied and a frozen
# parameter, on samples that are a function of their index, with a random part.
# Each process begins with weights of its own, which are to be forgotten.
MODEL = """
import os
import sys
import torch
from torch import nn
import sluice.torch

class Samples:
    def __len__(self):
        return 96
    def __getitem__(self, i):
        x = torch.linspace(-1, 1, 5) * (i % 7 - 3) + i % 3
        return x + torch.rand(5) / 10, x.sum(0, keepdim=True) / 2

def small():
    torch.manual_seed(5 if len(sys.argv) > 1 else os.getpid())
    model = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Dropout(0.2),
                          nn.Linear(5, 5), nn.Linear(5, 1))
    model[3].weight = model[0].weight
    nn.init.ones_(model[4].bias.requires_grad_(False))
    return model

def test_loss(model):
    torch.manual_seed(7)
    x, y = zip(*(Samples()[i] for i in range(96, 106)))
    return nn.functional.mse_loss(model(torch.stack(x)), torch.stack(y))
"""

PROGRAM = MODEL + """
if len(sys.argv) > 1:
    sluice.torch.init(small(), sys.argv[1], train_samples=96, batch_size=8,
                      local_steps=int(sys.argv[2]), test_samples=int(sys.argv[3]),
                      job='name: "small" cluster { workers: 2 } '
                          'optimizer { learning_rate: 0.05 sgd {} } '
                          'checkpoint { every_updates: 1000 } '
                          'limits { lease_s: 2 } '
                          'stop { epochs: 2 }')
    sys.exit()

model = small()
opt = sluice.torch.Optimizer(model)
for x, y in opt.batches(Samples()):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    opt.step(loss)
opt.evaluate(lambda: test_loss(model))
"""


def torch():
    """The package; None where its suite is not asked for."""
    return importlib.import_module("torch") if "torch" in harness.SUITES else None


def write(text):
    path = harness.scratch() / "program.py"
    path.write_text(text)
    return path


def changed(*replaced):
    """PROGRAM with (old, new) replaced, as a file."""
    text = PROGRAM
    for old, new in replaced:
        assert old in text, old
        text = text.replace(old, new)
    return write(text)


def output_of(program, *args):
    """What a program prints, which must succeed. It computes with one thread,
    as a worker has its processes do."""
    result = subprocess.run(
        [sys.executable, "-B", program, *map(str, args)], capture_output=True,
        text=True, timeout=harness.TIMEOUT_S, cwd=harness.scratch(),
        env={**os.environ, "OMP_NUM_THREADS": "1"})
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout.strip()


def job(local_steps=1, test_samples=0):
    """The job of PROGRAM."""
    folder = harness.scratch()
    output_of(write(PROGRAM), folder, local_steps, test_samples)
    return folder / "job.textproto"


def command(program):
    """What follows `sluice train JOB`."""
    return ["--", sys.executable, "-B", str(program)]
