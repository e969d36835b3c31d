#!/usr/bin/python3 -B
"""The loop of torch_ddp.py under Sluice: `--init FOLDER` writes its job, and a
worker starts it without."""

import pathlib
import sys

from torch_data import Loop, Samples

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
    parser = Loop.parser(__doc__)
    parser.add_argument("--init", metavar="FOLDER")
    parser.add_argument("--overlap", action="store_true")
    args = parser.parse_args()
    loop = Loop(args)
    samples = Samples(args.model, args.device)
    if args.init:
        print(sluice.torch.init(loop.model, args.init,
                                train_samples=len(samples),
                                batch_size=args.batch_size, job=JOB))
        return
    opt = sluice.torch.Optimizer(loop.model, overlap=args.overlap)
    for inputs, labels in opt.batches(samples, collate=lambda batch: batch):
        opt.zero_grad()
        loss = loop.loss_of(inputs, labels)
        loss.backward()
        opt.step(loss)


if __name__ == "__main__":
    main()
