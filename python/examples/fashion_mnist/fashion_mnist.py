"""LeNet-5 and Fashion-MNIST in PyTorch, as the two training loops share them."""

import gzip
import pathlib

import numpy
import torch
from torch import nn

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")


class LeNet(nn.Sequential):
    """The model of configs/fashion_mnist_lenet.textproto, with its initial
    weights: uniform within sqrt(6 / fan-in), and biases of 0."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
            nn.Linear(84, 10))
        for parameter in self.parameters():
            if parameter.ndim == 1:
                nn.init.zeros_(parameter)
            else:
                nn.init.kaiming_uniform_(parameter, nonlinearity="relu")


class FashionMnist(torch.utils.data.Dataset):
    """One split, "train" or "t10k", in memory."""

    def __init__(self, split: str):
        images = gzip.decompress(
            (FOLDER / f"{split}-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress(
            (FOLDER / f"{split}-labels-idx1-ubyte.gz").read_bytes())
        pixels = numpy.frombuffer(images, numpy.uint8, offset=16)
        pixels = pixels.reshape(-1, 1, 28, 28).astype(numpy.float32)
        self._images = torch.from_numpy((pixels / 255 - 0.2860) / 0.3530)
        self._labels = torch.from_numpy(
            numpy.frombuffer(labels, numpy.uint8, offset=8).astype(numpy.int64))

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._images[index], self._labels[index]


@torch.no_grad()
def evaluate(model: nn.Module, dataset: FashionMnist) -> tuple[float, float]:
    """The mean loss over the samples, and the share of them that the model
    classifies correctly."""
    loss, correct = 0.0, 0
    for images, labels in torch.utils.data.DataLoader(dataset, batch_size=500):
        scores = model(images)
        loss += float(nn.functional.cross_entropy(scores, labels,
                                                  reduction="sum"))
        correct += int((scores.argmax(dim=1) == labels).sum())
    return loss / len(dataset), correct / len(dataset)
