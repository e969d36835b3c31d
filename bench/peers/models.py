"""The models of configs/ in PyTorch, parameter for parameter in the order of
Sluice's flat vector, so that weights and gradients can be exchanged as they are.
"""

import pathlib
import re

import torch
from torch import nn


class Residual(nn.Module):
    """layers(x) + x, the latter through a 1x1 convolution where shapes differ."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(*convolution(inputs, outputs, stride),
                                  nn.ReLU(), *convolution(outputs, outputs, 1))
        self.projection = None
        if inputs != outputs or stride != 1:
            self.projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        beside = x if self.projection is None else self.projection(x)
        return self.body(x) + beside


def convolution(inputs, outputs, stride):
    return [nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs)]


MODELS = {
    "softmax": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 10)),
    "mlp": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128),
        nn.ReLU(), nn.Linear(128, 10)),
    "lenet": lambda: nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10)),
    "resnet": lambda: nn.Sequential(
        *convolution(1, 16, 2), nn.ReLU(), Residual(16, 16, 1), nn.ReLU(),
        Residual(16, 32, 2), nn.ReLU(), Residual(32, 32, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
}


def slots(model):
    """The tensors that lie in the flat vector, in its order."""
    return [t for name, t in model.state_dict(keep_vars=True).items()
            if not name.endswith("num_batches_tracked")]


def load(model, flat):
    begin = 0
    with torch.no_grad():
        for tensor in slots(model):
            part = flat[begin:begin + tensor.numel()]
            tensor.copy_(torch.from_numpy(part).view_as(tensor))
            begin += tensor.numel()
    assert begin == len(flat), (begin, len(flat))


def gradient(model):
    """The flat gradient; zeros in place of running statistics."""
    return torch.cat([
        (t.grad if t.grad is not None else torch.zeros_like(t)).flatten()
        for t in slots(model)]).numpy()


def description():
    """PyTorch's version and the BLAS in this process: Debian's alternatives
    decide which one that is, and the reference one is 20 times slower."""
    loaded = pathlib.Path("/proc/self/maps").read_text()
    blas = re.search(r"/([^/]*openblas[^/]*)\.so|/(libmkl[^/]*)\.so", loaded)
    return f"PyTorch {torch.__version__} with " + (
        next(filter(None, blas.groups())) if blas else "the reference BLAS")
