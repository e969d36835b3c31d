"""Writes the jobs of train.py and train_local_steps.py into a folder."""

import pathlib
import sys

import sluice.torch
import torch
from gpt import Gpt, train_text

JOB = """
name: "torch_gpt"
cluster { workers: 2 shards: 2 }
optimizer { learning_rate: 0.002 adamw { beta2: 0.99 weight_decay: 0.1 } }
checkpoint { every_updates: 200 }
stop { epochs: 10 }
"""

# DiLoCo (Douillard et al. 2023): AdamW in each worker, Nesterov momentum on
# the mean of what they moved.
LOCAL_STEPS_JOB = """
name: "torch_gpt_local_steps"
cluster { workers: 2 shards: 2 }
optimizer { learning_rate: 0.7 sgd { momentum: 0.9 nesterov: true } }
checkpoint { every_updates: 20 }
stop { epochs: 10 }
"""

torch.manual_seed(1)
folder = pathlib.Path(sys.argv[1])
samples = len(train_text())
print(sluice.torch.init(Gpt(), folder / "adamw", train_samples=samples,
                        batch_size=8, job=JOB))
print(sluice.torch.init(Gpt(), folder / "local_steps", train_samples=samples,
                        batch_size=8, local_steps=10, job=LOCAL_STEPS_JOB))
