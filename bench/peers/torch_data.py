"""What PyTorch's training loops train on, in memory: Fashion-MNIST, normalised
as in configs/, or bytes; and the code that they share."""

import gzip

import numpy as np
import torch

FOLDER = "/usr/share/datasets/fashion-mnist"


def training_set():
    with gzip.open(f"{FOLDER}/train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16)
    with gzip.open(f"{FOLDER}/train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    images = torch.from_numpy(images.astype(np.float32)).div_(255)
    return (images.sub_(0.2860).div_(0.3530).view(-1, 1, 28, 28),
            torch.from_numpy(labels.astype(np.int64)))


def bytes_at_random(length=32):
    """60,000 texts, and for each byte the one that follows."""
    generator = torch.Generator().manual_seed(1)
    texts = torch.randint(256, (60000, length + 1), generator=generator)
    return texts[:, :-1].contiguous(), texts[:, 1:].contiguous()


class Samples:
    """Inputs and labels for a model of models.py, taken many at once."""

    def __init__(self, model="lenet"):
        self.inputs, self.labels = (bytes_at_random() if model == "gpt" else
                                    training_set())

    def __len__(self):
        return len(self.labels)

    def __getitems__(self, indices):
        return self.inputs[indices], self.labels[indices]


class Batches:
    """An endless sequence of mini-batches from one process's share of the
    samples, which is shuffled in each epoch."""

    def __init__(self, batch_size, rank=0, share=1, model="lenet"):
        self.samples = Samples(model)
        self.own = torch.arange(rank, len(self.samples), share)
        self.batch_size = batch_size
        self.left = torch.empty(0, dtype=torch.int64)

    def next(self):
        if len(self.left) < self.batch_size:
            self.left = self.own[torch.randperm(len(self.own))]
        taken, self.left = (self.left[:self.batch_size],
                            self.left[self.batch_size:])
        return self.samples.__getitems__(taken)
