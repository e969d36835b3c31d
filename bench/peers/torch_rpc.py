#!/usr/bin/python3 -B
"""A parameter server in PyTorch: LeNet, asynchronous SGD with momentum, over
torch.distributed.rpc (TensorPipe). A worker sends its gradient as one tensor
and is answered with the weights as one, in one call; all have one thread.
Prints samples per second of all workers, without what came before their first
updates."""

import argparse
import json
import threading
import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as multiprocessing
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import models
from torch_data import Batches

WARM_UP = 20  # Updates.


class Server:
    """The weights, which are in the process of rank 0."""

    lock = threading.Lock()
    weights = None
    optimizer = None

    @classmethod
    def start(cls):
        torch.manual_seed(1)
        cls.weights = parameters_to_vector(
            models.MODELS["lenet"]().parameters()).detach()
        cls.optimizer = torch.optim.SGD([cls.weights], lr=0.03, momentum=0.9)


def pull():
    with Server.lock:
        return Server.weights.clone()


def push_and_pull(gradient):
    with Server.lock:
        Server.weights.grad = gradient
        Server.optimizer.step()
        return Server.weights.clone()


def work(rank, args):
    """The call by which rank 0 starts a worker. Returns samples per second."""
    torch.set_num_threads(1)  # In this thread, which RPC has started.
    batches = Batches(args.batch_size, rank - 1, args.workers)
    model = models.MODELS["lenet"]()
    weights = rpc.rpc_sync("server", pull)

    def update():
        nonlocal weights
        vector_to_parameters(weights, model.parameters())
        images, labels = batches.next()
        model.zero_grad(set_to_none=True)
        cross_entropy(model(images), labels).backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
        weights = rpc.rpc_sync("server", push_and_pull, args=(gradient,))

    for _ in range(WARM_UP):
        update()
    updates, start = 0, time.monotonic()
    while time.monotonic() - start < args.seconds:
        update()
        updates += 1
    return updates * args.batch_size / (time.monotonic() - start)


def run(rank, args):
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=args.workers + 2,
        init_method=f"file://{args.meet}")
    if rank == 0:
        Server.start()
    rpc.init_rpc("server" if rank == 0 else f"worker{rank}", rank=rank,
                 world_size=args.workers + 1, rpc_backend_options=options)
    if rank == 0:
        rates = [rpc.rpc_async(f"worker{r}", work, args=(r, args))
                 for r in range(1, args.workers + 1)]
        print(json.dumps({"samples_per_second": sum(r.wait() for r in rates),
                          "device": models.description()}))
    rpc.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--meet", required=True,
                        help="a new file, by which the processes find each other")
    args = parser.parse_args()
    multiprocessing.spawn(run, (args,), nprocs=args.workers + 1)


if __name__ == "__main__":
    main()
