#!/usr/bin/python3 -B
"""PyTorch's part of bench/compute.py: forward and backward of one mini-batch, on
one thread or on a GPU, with the weights and the mini-batch that
peers/one_worker.cc wrote; speaks as that program does."""

import argparse
import json
import os
import sys
import time

import numpy as np
import torch

import models

# Steps after which the program waits for the GPU.
EACH = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=models.MODELS, required=True)
    parser.add_argument("--inputs", required=True, help="folder to read")
    parser.add_argument("--folder", required=True, help="to write")
    parser.add_argument("--shape", type=int, nargs="+", required=True,
                        help="channels, height and width of an image, or the "
                             "length of a text")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["FP32", "TF32", "BF16"],
                        default="FP32", help="of products and convolutions")
    parser.add_argument("--compiled", action="store_true",
                        help="by torch.compile")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = args.precision == "TF32"
    torch.backends.cuda.matmul.allow_tf32 = args.precision == "TF32"
    autocast = torch.autocast(args.device, torch.bfloat16,
                              enabled=args.precision == "BF16")
    plain = models.MODELS[args.model]()
    models.load(plain, np.fromfile(f"{args.inputs}/weights.f32", np.float32))
    labels = np.fromfile(f"{args.inputs}/labels.i32", np.int32)
    labels = torch.from_numpy(labels.astype(np.int64)).to(args.device)
    inputs = torch.from_numpy(
        np.fromfile(f"{args.inputs}/inputs.f32", np.float32))
    inputs = inputs.view(-1, *args.shape).to(args.device)
    plain.to(args.device)
    if args.device == "cuda" and inputs.dim() == 4:
        plain.to(memory_format=torch.channels_last)
        inputs = inputs.to(memory_format=torch.channels_last)
    model = torch.compile(plain) if args.compiled else plain

    def step():
        model.zero_grad(set_to_none=True)
        with autocast:
            scores = model(inputs).flatten(0, -2)  # A row for each label.
        loss = torch.nn.functional.cross_entropy(scores.float(), labels)
        loss.backward()
        return loss

    def wait():
        if args.device == "cuda":
            torch.cuda.synchronize()

    loss = step().item()
    os.makedirs(args.folder, exist_ok=True)
    models.gradient(plain).tofile(f"{args.folder}/gradient.f32")
    print(json.dumps({"device": models.description(), "loss": loss}), flush=True)
    for line in sys.stdin:
        seconds = float(line.split()[1])
        samples, start, cpu = 0, time.monotonic(), time.process_time()
        while time.monotonic() - start < seconds:
            for _ in range(EACH if args.device == "cuda" else 1):
                step()
                samples += len(inputs)
            wait()
        print(samples / (time.process_time() - cpu),
              samples / (time.monotonic() - start), flush=True)


if __name__ == "__main__":
    main()
