"""What PyTorch's training loops train on, in memory: Fashion-MNIST, normalised
as in configs/, bytes, or images of random numbers; and the code that they
share."""

import argparse
import gzip

import numpy as np
import torch

import models

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


def images_at_random(height, classes):
    """So few that they fit on any GPU."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(256, 3, height, height, generator=generator)
    return (images.to(memory_format=torch.channels_last),
            torch.randint(classes, (256,), generator=generator))


def tensors_for(model):
    """Inputs and labels for a model of models.py."""
    if model == "gpt":
        return bytes_at_random()
    if model == "transformer":
        return bytes_at_random(128)
    if model in ("resnet18", "vgg16"):
        return images_at_random(32, 10)
    if model == "resnet50":
        return images_at_random(224, 1000)
    return training_set()


class Samples:
    """60,000 inputs and labels, which begin anew where there are fewer, taken
    many at once."""

    def __init__(self, model="lenet", device="cpu"):
        self.inputs, self.labels = (
            tensor.to(device) for tensor in tensors_for(model))

    def __len__(self):
        return 60000

    def __getitems__(self, indices):
        indices = torch.as_tensor(indices, device=self.labels.device)
        indices = indices % len(self.labels)
        return self.inputs[indices], self.labels[indices]


class Loop:
    """A model as both loops train it, and their options."""

    @staticmethod
    def parser(about):
        parser = argparse.ArgumentParser(description=about)
        parser.add_argument("--model", choices=models.MODELS, default="lenet")
        parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
        parser.add_argument("--precision", choices=["FP32", "BF16"],
                            default="FP32", help="BF16 is by autocast")
        parser.add_argument("--batch-size", type=int, default=64)
        return parser

    def __init__(self, args):
        torch.backends.cudnn.benchmark = True
        self.model = models.MODELS[args.model]().to(args.device)
        if args.device == "cuda":
            self.model.to(memory_format=torch.channels_last)
        self._autocast = torch.autocast(args.device, torch.bfloat16,
                                        enabled=args.precision == "BF16")

    def loss_of(self, inputs, labels):
        with self._autocast:
            return models.loss_of(self.model, inputs, labels)


class Batches:
    """An endless sequence of mini-batches from one process's share of the
    samples, which is shuffled in each epoch."""

    def __init__(self, batch_size, rank=0, share=1, model="lenet",
                 device="cpu"):
        self.samples = Samples(model, device)
        self.own = torch.arange(rank, len(self.samples), share)
        self.batch_size = batch_size
        self.left = torch.empty(0, dtype=torch.int64)

    def next(self):
        if len(self.left) < self.batch_size:
            self.left = self.own[torch.randperm(len(self.own))]
        taken, self.left = (self.left[:self.batch_size],
                            self.left[self.batch_size:])
        return self.samples.__getitems__(taken)
