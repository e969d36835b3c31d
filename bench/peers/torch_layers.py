#!/usr/bin/python3 -B
"""PyTorch's part of bench/layers.py: the layers that only move memory, on one
thread, on the arrays of `bench kernels`. Prints a JSON object: GB/s by the row's
name there, bytes counted as there, each the fastest of ten rounds of 5 ms of CPU
time."""

import json
import math
import time

import torch

import models

ROUNDS, SECONDS = 10, 0.005


def rate(size, arrays, call):
    """GB/s of `call`, which counts `arrays` arrays of `size` floats."""
    call()
    calls = 1
    while True:
        start = time.process_time()
        for _ in range(calls):
            call()
        if time.process_time() - start >= SECONDS:
            break
        calls *= 2
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(calls):
            call()
        best = min(best, (time.process_time() - start) / calls)
    return 4 * size * arrays / best / 1e9


def activation(rows, samples, size):
    x, dy = torch.randn(samples, size), torch.randn(samples, size)
    aten = torch.ops.aten
    y = torch.tanh(x)
    for name, forward, backward in (
            ("relu", lambda: torch.relu(x),
             lambda: aten.threshold_backward(dy, y, 0)),
            ("tanh", lambda: torch.tanh(x), lambda: aten.tanh_backward(dy, y)),
            ("sigmoid", lambda: torch.sigmoid(x),
             lambda: aten.sigmoid_backward(dy, y)),
            ("gelu", lambda: torch.nn.functional.gelu(x),
             lambda: aten.gelu_backward(dy, x))):
        rows[f"{name} {size} n{samples} forward"] = rate(x.numel(), 2, forward)
        rows[f"{name} {size} n{samples} backward"] = rate(x.numel(), 3, backward)


def batch_norm(rows, samples, channels, *sides):
    x, dy = (torch.randn(samples, channels, *sides) for _ in range(2))
    gamma, beta, mean, variance = (torch.rand(channels) for _ in range(4))
    aten = torch.ops.aten
    _, save_mean, save_inverse = aten.native_batch_norm(
        x, gamma, beta, mean, variance, True, 0.1, 1e-5)
    name = f"batch_norm {channels}x{math.prod(sides)} n{samples}"
    rows[f"{name} forward"] = rate(x.numel(), 3, lambda: aten.native_batch_norm(
        x, gamma, beta, mean, variance, True, 0.1, 1e-5))
    rows[f"{name} backward"] = rate(
        x.numel(), 5, lambda: aten.native_batch_norm_backward(
            dy, x, gamma, mean, variance, save_mean, save_inverse, True, 1e-5,
            [True, True, True]))


def layer_norm(rows, samples, length, features):
    x, dy = (torch.randn(samples * length, features) for _ in range(2))
    gamma, beta = torch.rand(features), torch.rand(features)
    aten = torch.ops.aten
    _, mean, inverse = aten.native_layer_norm(x, [features], gamma, beta, 1e-5)
    name = f"layer_norm {length}x{features}x1 in 1 n{samples}"
    rows[f"{name} forward"] = rate(x.numel(), 2, lambda: aten.native_layer_norm(
        x, [features], gamma, beta, 1e-5))
    rows[f"{name} backward"] = rate(
        x.numel(), 3, lambda: aten.native_layer_norm_backward(
            dy, x, [features], mean, inverse, gamma, beta, [True, True, True]))


def main():
    torch.set_num_threads(1)
    rows = {}
    with torch.inference_mode():
        activation(rows, 64, 4704)
        batch_norm(rows, 64, 16, 28, 28)
        batch_norm(rows, 64, 256)
        layer_norm(rows, 16, 128, 128)
    print(json.dumps({"device": models.description(), "rows": rows}))


if __name__ == "__main__":
    main()
