"""A small residual network with batch norm on Fashion-MNIST. `resnet.py FOLDER`
writes its job; started by a worker without an argument, it trains."""

import sys

import sluice.torch
import torch
from fashion_mnist import FashionMnist
from torch import nn
from torch.nn.functional import cross_entropy

JOB = """
name: "torch_resnet"
cluster { workers: 2 shards: 2 }
optimizer { learning_rate: 0.1 sgd { momentum: 0.9 weight_decay: 5e-4 } }
schedule { cosine { epochs: 5 } warmup_epochs: 0.25 }
checkpoint { every_updates: 200 }
stop { epochs: 5 }
"""


class Block(nn.Module):
    """Two convolutions beside a bridge (He et al. 2015), a projection where
    the image is halved."""

    def __init__(self, before: int, channels: int, stride: int):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(before, channels, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels))
        self.bridge = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(before, channels, 1, stride, bias=False),
            nn.BatchNorm2d(channels))
        nn.init.zeros_(self.convolutions[-1].weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.convolutions(x) + self.bridge(x)).relu()


class ResNet(nn.Sequential):
    """The model of configs/fashion_mnist_resnet.textproto."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 16, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(16), nn.ReLU(), Block(16, 16, 1), Block(16, 32, 2),
            Block(32, 32, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(32, 10))


def main():
    if len(sys.argv) > 1:
        print(sluice.torch.init(ResNet(), sys.argv[1], train_samples=60000,
                                job=JOB))
        return
    model = ResNet()
    opt = sluice.torch.Optimizer(model)
    # Its process begins with the next mini-batch while this one is computed.
    loader = torch.utils.data.DataLoader(FashionMnist("train"), batch_size=64,
                                         num_workers=1)
    for images, labels in opt.batches(loader):
        opt.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        opt.step(loss)


if __name__ == "__main__":
    main()
