#!/usr/bin/python3 -B
"""PyTorch's DistributedDataParallel over gloo, or a plain loop where one process
is asked for: SGD with momentum in processes of one thread each. Prints samples
per second of all together, without what came before the first updates."""

import json
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.nn.parallel import DistributedDataParallel

import models
from torch_data import Batches, Loop

WARM_UP = 20  # Updates.


def work(rank, args):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=args.workers,
                            init_method=f"file://{args.meet}")
    loop = Loop(args)
    if args.workers > 1:
        loop.model = DistributedDataParallel(loop.model)
    optimizer = torch.optim.SGD(loop.model.parameters(), lr=0.03, momentum=0.9)
    batches = Batches(args.batch_size, rank, args.workers, args.model,
                      args.device)

    def update():
        inputs, labels = batches.next()
        optimizer.zero_grad(set_to_none=True)
        loop.loss_of(inputs, labels).backward()
        optimizer.step()

    def seconds_of(updates):
        dist.barrier()
        start = time.monotonic()
        for _ in range(updates):
            update()
        if args.device == "cuda":
            torch.cuda.synchronize()
        dist.barrier()
        return time.monotonic() - start

    seconds_of(WARM_UP)
    # All processes make as many steps as rank 0 decides.
    updates = torch.tensor([WARM_UP * args.seconds / seconds_of(WARM_UP)])
    dist.broadcast(updates, 0)
    updates = max(1, int(updates.item()))
    took = seconds_of(updates)
    if rank == 0:
        rate = updates * args.workers * args.batch_size / took
        print(json.dumps({"samples_per_second": rate,
                          "device": models.description()}))
    dist.destroy_process_group()


def main():
    parser = Loop.parser(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--meet", required=True,
                        help="a new file, by which the processes find each other")
    args = parser.parse_args()
    multiprocessing.spawn(work, (args,), nprocs=args.workers)


if __name__ == "__main__":
    main()
