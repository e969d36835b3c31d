#!/usr/bin/python3 -B
"""PyTorch's part of bench/compute.py: forward and backward of one mini-batch on
one thread, with the weights and the mini-batch that peers/one_worker.cc wrote;
speaks as that program does."""

import argparse
import json
import os
import sys
import time

import numpy as np
import torch

import models


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=models.MODELS, required=True)
    parser.add_argument("--inputs", required=True, help="folder to read")
    parser.add_argument("--folder", required=True, help="to write")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = models.MODELS[args.model]()
    models.load(model, np.fromfile(f"{args.inputs}/weights.f32", np.float32))
    labels = np.fromfile(f"{args.inputs}/labels.i32", np.int32)
    labels = torch.from_numpy(labels.astype(np.int64))
    inputs = torch.from_numpy(
        np.fromfile(f"{args.inputs}/inputs.f32", np.float32))
    inputs = inputs.view(len(labels), 1, 28, 28)

    def step():
        model.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        return loss

    loss = step().item()
    os.makedirs(args.folder, exist_ok=True)
    models.gradient(model).tofile(f"{args.folder}/gradient.f32")
    print(json.dumps({"device": models.description(), "loss": loss}), flush=True)
    for line in sys.stdin:
        seconds = float(line.split()[1])
        samples, start, cpu = 0, time.monotonic(), time.process_time()
        while time.monotonic() - start < seconds:
            step()
            samples += len(labels)
        print(samples / (time.process_time() - cpu),
              samples / (time.monotonic() - start), flush=True)


if __name__ == "__main__":
    main()
