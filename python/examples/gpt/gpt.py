"""A small GPT on the bytes of a text, as the training loops share it."""

import pathlib

import torch
from torch import nn
from torch.nn.functional import cross_entropy

LENGTH = 128  # Bytes that the model sees.
FEATURES, HEADS, BLOCKS = 128, 4, 3
DOCUMENTS = pathlib.Path(__file__).parents[3] / "docs"


class Block(nn.Module):
    """Attention and an MLP, each on its normed input and added to it."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(FEATURES)
        self.qkv = nn.Linear(FEATURES, 3 * FEATURES)
        self.out = nn.Linear(FEATURES, FEATURES)
        self.norm2 = nn.LayerNorm(FEATURES)
        self.mlp = nn.Sequential(nn.Linear(FEATURES, 4 * FEATURES), nn.GELU(),
                                 nn.Linear(4 * FEATURES, FEATURES))
        self.register_buffer(
            "later", torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        samples, length, _ = x.shape
        q, k, v = [
            part.view(samples, length, HEADS, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)]
        scores = q @ k.transpose(2, 3) * q.shape[-1]**-0.5
        scores = scores.masked_fill(self.later[:length, :length], -torch.inf)
        mixed = (scores.softmax(dim=-1) @ v).transpose(1, 2)
        x = x + self.out(mixed.reshape(samples, length, FEATURES))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """The layout of configs/text_transformer.textproto (Radford et al. 2019):
    its output layer is its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, FEATURES)
        self.position = nn.Embedding(LENGTH, FEATURES)
        self.blocks = nn.Sequential(*[Block() for _ in range(BLOCKS)])
        self.norm = nn.LayerNorm(FEATURES)
        self.head = nn.Linear(FEATURES, 256, bias=False)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)
        self.head.weight = self.embedding.weight

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Logits of the byte after each: (samples, length, 256)."""
        places = torch.arange(text.shape[1])
        x = self.embedding(text) + self.position(places)
        return self.head(self.norm(self.blocks(x)))

    def loss(self, text: torch.Tensor) -> torch.Tensor:
        """Mean over all bytes but the first."""
        logits = self(text[:, :-1])
        return cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


class Text(torch.utils.data.Dataset):
    """Pieces of LENGTH + 1 bytes, one after the other."""

    def __init__(self, *names: str):
        text = b"".join((DOCUMENTS / name).read_bytes() for name in names)
        pieces = (len(text) - 1) // LENGTH
        data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        self._pieces = [data[i * LENGTH:(i + 1) * LENGTH + 1]
                        for i in range(pieces)]

    def __len__(self) -> int:
        return len(self._pieces)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self._pieces[index]


def train_text() -> Text:
    return Text("architecture.md", "benchmarks.md", "failures.md", "job.md",
                "operations.md", "protocol.md", "theory.md")
