#!/usr/bin/python3 -B
"""The weights that train wrote give the accuracy that train reported when they
are read without Sluice's code: by a reader of .safetensors, a reader of IDX,
and forward passes of LeNet and of the small residual network in numpy."""

import gzip
import json
import struct
import unittest

import numpy as np

import harness

DATA = "/usr/share/datasets/fashion-mnist/"


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", entry
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(
            data[8 + size + begin:8 + size + end], "<f4").reshape(
                entry["shape"]).astype(np.float64)
    return tensors


def read_idx(path):
    with gzip.open(path) as f:
        data = f.read()
    dimensions = data[3]
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(
        shape)


def conv(x, w, b, padding, stride=1):
    x = np.pad(x, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(
        x, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,ocij->nohw", windows, w,
                     optimize=True) + b[:, None, None]


def pool(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))


def relu(x):
    return np.maximum(x, 0)


def lenet(x, t):
    names = list(t)  # conv, conv, dense, dense, dense: weight, bias of each.
    (w1, b1, w2, b2, w3, b3, w4, b4, w5, b5) = (t[n] for n in names)
    x = pool(relu(conv(x, w1, b1, 2)))
    x = pool(relu(conv(x, w2, b2, 0)))
    x = x.reshape(len(x), -1)
    x = relu(x @ w3.T + b3)
    x = relu(x @ w4.T + b4)
    return x @ w5.T + b5


def resnet(x, t):
    """The forward pass of configs/fashion_mnist_resnet.textproto, by its
    tensors' names."""
    none = np.zeros(1)

    def norm(x, layer):
        gamma, beta, mean, variance = (
            t[f"{layer}.{name}"][:, None, None]
            for name in ("gamma", "beta", "running_mean", "running_variance"))
        return gamma * (x - mean) / np.sqrt(variance + 1e-5) + beta

    def block(x, name, stride):
        y = conv(x, t[f"{name}.conv2d0.weight"], none, 1, stride)
        y = relu(norm(y, f"{name}.batch_norm1"))
        y = conv(y, t[f"{name}.conv2d3.weight"], none, 1)
        y = norm(y, f"{name}.batch_norm4")
        if stride > 1:
            x = conv(x, t[f"{name}.projection.weight"], none, 0, stride)
        return relu(x + y)

    x = conv(x, t["conv2d0.weight"], none, 1, 2)
    x = relu(norm(x, "batch_norm1"))
    x = block(x, "residual3", 1)
    x = block(x, "residual5", 2)
    x = block(x, "residual7", 1)
    return x.mean(axis=(2, 3)) @ t["dense10.weight"].T + t["dense10.bias"]


class IndependentReaderTest(unittest.TestCase):

    def test_numpy_gets_the_reported_accuracy(self):
        self.compare(harness.train(harness.LENET, "--set", "stop.updates=60"),
                     lenet)

    def test_numpy_gets_that_of_batch_norm_and_residuals(self):
        self.compare(
            harness.train(
                harness.ROOT / "configs/fashion_mnist_resnet.textproto",
                *harness.sets(["stop.updates=200", "schedule.warmup_epochs=0",
                               "schedule.cosine.epochs=0.5"])),
            resnet)

    def compare(self, run, forward):
        tensors = read_safetensors(run.dir / "weights.safetensors")
        images = read_idx(DATA + "t10k-images-idx3-ubyte.gz") / 255.0
        labels = read_idx(DATA + "t10k-labels-idx1-ubyte.gz")
        images = ((images - 0.2860) / 0.3530)[:, None]
        right = total = 0
        loss = 0.0
        for at in range(0, len(images), 500):
            logits = forward(images[at:at + 500], tensors)
            want = labels[at:at + 500]
            right += int((logits.argmax(axis=1) == want).sum())
            top = logits.max(axis=1, keepdims=True)
            log_sum = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
            loss += float((log_sum - logits[np.arange(len(want)), want]).sum())
            total += len(want)
        summary = run.summary
        print(f"numpy {right / total} loss {loss / total}; reported "
              f"{summary['test_accuracy']} loss {summary['test_loss']}")
        self.assertEqual(total, 10000)
        # The model has learnt something, so an agreement means something.
        self.assertGreater(summary["test_accuracy"], 0.4)
        # float32 against float64: a sample whose two best logits differ by
        # about 1e-6 may go either way. Two in 10,000 is a generous bound.
        self.assertLessEqual(
            abs(right - round(summary["test_accuracy"] * total)), 2)
        self.assertAlmostEqual(loss / total, summary["test_loss"], delta=1e-4)


if __name__ == "__main__":
    harness.main()
