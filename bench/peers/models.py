"""The models of configs/ in PyTorch. Their parameters have the order of
Sluice's flat vector, so weights and gradients can be exchanged as they are."""

import pathlib
import re

import torch
from torch import nn
from torch.nn import functional


def convolution(inputs, outputs, kernel, stride):
    return [nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2,
                      bias=False), nn.BatchNorm2d(outputs)]


class Residual(nn.Module):
    """layers(x) + x, with a 1x1 convolution on x if the shapes differ. The
    layers are convolutions of (outputs, kernel, stride)."""

    def __init__(self, inputs, convolutions):
        super().__init__()
        layers, channels, strides = [], inputs, 1
        for outputs, kernel, stride in convolutions:
            layers += [nn.ReLU()] * bool(layers)
            layers += convolution(channels, outputs, kernel, stride)
            channels, strides = outputs, strides * stride
        self.body = nn.Sequential(*layers)
        self.projection = None
        if inputs != channels or strides != 1:
            self.projection = nn.Conv2d(inputs, channels, 1, strides, bias=False)

    def forward(self, x):
        beside = x if self.projection is None else self.projection(x)
        return self.body(x) + beside


def basic(channels, stride):
    return [(channels, 3, stride), (channels, 3, 1)]


def bottleneck(channels, stride):
    return [(channels, 1, 1), (channels, 3, stride), (4 * channels, 1, 1)]


def stages(block, inputs, *sizes):
    """For each (channels, stride, times): that many blocks, the first with the
    stride."""
    layers = []
    for channels, stride, times in sizes:
        for i in range(times):
            convolutions = block(channels, stride if i == 0 else 1)
            layers += [Residual(inputs, convolutions), nn.ReLU()]
            inputs = convolutions[-1][0]
    return layers


def pooled(channels, classes):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def vgg16():
    layers, inputs = [], 3
    for channels, times in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]:
        for _ in range(times):
            layers += [*convolution(inputs, channels, 3, 1), nn.ReLU()]
            inputs = channels
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


class Plus(nn.Sequential):
    """layers(x) + x."""

    def forward(self, x):
        return super().forward(x) + x


class Attention(nn.Module):
    """Attention of each position to all positions up to it. Takes queries,
    keys and values joined, (samples, length, 3 features); returns (samples,
    length, features)."""

    def __init__(self, length, heads):
        super().__init__()
        self.heads = heads
        later = torch.full((length, length), -torch.inf).triu(1)
        self.register_buffer("later", later, persistent=False)

    def forward(self, x):
        parts = x.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.attend(*parts).transpose(1, 2).flatten(2)

    def attend(self, q, k, v):
        if hasattr(functional, "scaled_dot_product_attention"):  # PyTorch 2.
            return functional.scaled_dot_product_attention(
                q, k, v, is_causal=True)
        scores = (q / q.shape[-1] ** 0.5) @ k.transpose(-2, -1) + self.later
        return scores.softmax(-1) @ v


class Transformer(nn.Module):
    """A decoder-only transformer on bytes, with norms before attention and
    MLP. The output's weights are the embedding's."""

    def __init__(self, length, features, heads, blocks):
        super().__init__()
        self.tokens = nn.Parameter(torch.empty(256, features))
        self.positions = nn.Parameter(torch.empty(length, features))
        for table in self.tokens, self.positions:
            nn.init.normal_(table, std=0.02)
        layers = []
        for _ in range(blocks):
            layers += [
                Plus(nn.LayerNorm(features), nn.Linear(features, 3 * features),
                     Attention(length, heads), nn.Linear(features, features)),
                Plus(nn.LayerNorm(features), nn.Linear(features, 4 * features),
                     nn.GELU(), nn.Linear(4 * features, features))]
        self.layers = nn.Sequential(*layers, nn.LayerNorm(features))

    def forward(self, x):
        y = functional.embedding(x.long(), self.tokens) + self.positions
        return functional.linear(self.layers(y), self.tokens)


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
        *convolution(1, 16, 3, 2), nn.ReLU(),
        *stages(basic, 16, (16, 1, 1), (32, 2, 1), (32, 1, 1)), *pooled(32, 10)),
    "resnet18": lambda: nn.Sequential(
        *convolution(3, 64, 3, 1), nn.ReLU(),
        *stages(basic, 64, (64, 1, 2), (128, 2, 2), (256, 2, 2), (512, 2, 2)),
        *pooled(512, 10)),
    "resnet50": lambda: nn.Sequential(
        *convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1),
        *stages(bottleneck, 64, (64, 1, 3), (128, 2, 4), (256, 2, 6),
                (512, 2, 3)), *pooled(2048, 1000)),
    "vgg16": vgg16,
    "gpt": lambda: Transformer(length=32, features=64, heads=4, blocks=2),
    "transformer": lambda: Transformer(length=128, features=128, heads=4,
                                       blocks=3),
}


def loss_of(model, inputs, labels):
    """Mean over all samples, and all bytes of a text."""
    return functional.cross_entropy(model(inputs).flatten(0, -2),
                                    labels.flatten())


def slots(model):
    """The tensors of the flat vector, in its order."""
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
    """The flat gradient, with zeros in place of running statistics."""
    return torch.cat([
        (t.grad if t.grad is not None else torch.zeros_like(t)).flatten()
        for t in slots(model)]).cpu().numpy()


def description():
    """PyTorch's version and the BLAS that this process uses. Debian's
    alternatives choose the BLAS, and the reference BLAS is 20 times slower."""
    loaded = pathlib.Path("/proc/self/maps").read_text()
    blas = re.search(r"/([^/]*openblas[^/]*)\.so|/(libmkl[^/]*)\.so", loaded)
    return f"PyTorch {torch.__version__} with " + (
        next(filter(None, blas.groups())) if blas else "the reference BLAS")
