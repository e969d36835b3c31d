#!/usr/bin/python3 -B
"""The loop of torch_ddp.py under Sluice: `--init FOLDER` writes its job, and a
worker starts it without."""

import argparse
import pathlib
import sys

import models
from torch_data import Samples

sys.path.append(str(pathlib.Path(__file__).absolute().parents[2] / "python"))
import sluice.torch  # pylint: disable=wrong-import-position

JOB = """
name: "torch_sluice"
cluster { shards: 1 }
worker { threads: 1 }
optimizer { learning_rate: 0.03 sgd { momentum: 0.9 } }
output { metrics_every_s: 0.1 }
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=models.MODELS, default="lenet")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--init", metavar="FOLDER")
    args = parser.parse_args()
    model = models.MODELS[args.model]()
    samples = Samples(args.model)
    if args.init:
        print(sluice.torch.init(model, args.init, train_samples=len(samples),
                                batch_size=args.batch_size, job=JOB))
        return
    opt = sluice.torch.Optimizer(model)
    for inputs, labels in opt.batches(samples, collate=lambda batch: batch):
        opt.zero_grad()
        loss = models.loss_of(model, inputs, labels)
        loss.backward()
        opt.step(loss)


if __name__ == "__main__":
    main()
