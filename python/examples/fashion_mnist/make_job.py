"""Writes the job of train.py into the folder that it is given."""

import sys

import sluice.torch
import torch
from fashion_mnist import LeNet

JOB = """
name: "torch_lenet"
cluster { workers: 2 shards: 2 }
optimizer { learning_rate: 0.03 sgd { momentum: 0.9 } }
checkpoint { every_updates: 200 }
evaluation { every_epochs: 0.2 }
stop { epochs: 1 }
"""

# At this rate some weights end with every unit dead, in any PyTorch loop.
torch.manual_seed(1)
print(sluice.torch.init(LeNet(), sys.argv[1], train_samples=60000,
                        test_samples=10000, job=JOB))
