"""Fashion-MNIST in memory, normalised as in configs/, and the code that
PyTorch's training loops share."""

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


class Batches:
    """An endless sequence of mini-batches from one process's share of the
    samples, which is shuffled in each epoch."""

    def __init__(self, batch_size, rank=0, share=1):
        self.images, self.labels = training_set()
        self.own = torch.arange(rank, len(self.labels), share)
        self.batch_size = batch_size
        self.left = torch.empty(0, dtype=torch.int64)

    def next(self):
        if len(self.left) < self.batch_size:
            self.left = self.own[torch.randperm(len(self.own))]
        taken, self.left = (self.left[:self.batch_size],
                            self.left[self.batch_size:])
        return self.images[taken], self.labels[taken]
