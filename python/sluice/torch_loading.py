"""Mini-batches of the samples that a task names."""

import concurrent.futures
import ctypes
import random
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.multiprocessing  # Sends tensors through shared memory.

# Mini-batches: the number of each, and the indices of its samples.
Numbered = Iterable[tuple[int, Sequence[int]]]


def seed_all(*numbers: int) -> None:
    """Seeds torch, random and NumPy by `numbers`."""
    # Near seeds give near draws in many generators: this spreads them.
    seed = random.Random(repr(numbers)).getrandbits(63)
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


class Loading:
    """Makes mini-batches of a dataset, in this process or in others.

    `dataset` is a DataLoader, or anything with len() and dataset[i]. Of a
    DataLoader its dataset, collate_fn, num_workers, multiprocessing_context and
    worker_init_fn count; which samples come, and in which order, the cluster
    decides. What is random in a mini-batch is drawn from `seed` and its number,
    in whichever process it is made.

    Not thread-safe: call from the thread that trains.
    """

    def __init__(self, dataset: Any, collate: Callable | None, seed: int):
        loader = dataset if isinstance(
            dataset, torch.utils.data.DataLoader) else None
        if loader is not None:
            dataset, collate = loader.dataset, collate or loader.collate_fn
        self.samples = len(dataset)
        self.batch_size = None if loader is None else loader.batch_size
        self.loaded_early_total = 0  # Mini-batches that were expected.
        self._make = _Make(
            dataset, collate or torch.utils.data.default_collate, seed)
        self._early: dict[int, concurrent.futures.Future] = {}
        # What is likely to be asked for next, that mini-batch if it was made
        # ahead in this process, and whether the last expectation was right.
        self._expected: int | None = None
        self._made_ahead: Any = None
        self._expects_well = False
        self._most_early = 0
        self._processes = None
        if loader is not None and loader.num_workers > 0:
            # Each makes one and has another to go on with.
            self._most_early = 2 * loader.num_workers
            self._processes = _start(loader, self._make)

    def load(self, number: int, indices: Sequence[int],
             following: Numbered = ()) -> Any:
        """Mini-batch `number`, of these samples. Other processes begin with
        the `following`, too, which are likely to be wanted next. Raises what
        the dataset or `collate` raises, and BrokenProcessPool where a process
        was killed."""
        if self._processes is None:
            return self._load_here(number, indices)
        self.loaded_early_total += number in self._early
        made = self._early.pop(number, None) or self._submit(number, indices)
        for passed in [n for n in self._early if n < number]:
            self._early.pop(passed).cancel()
        for n, of in following:
            if n not in self._early and len(self._early) < self._most_early:
                self._early[n] = self._submit(n, of)
        return made.result()

    def expect(self, number: int, indices: Sequence[int]) -> None:
        """Nothing is to be done before the next load, which is likely to be of
        this mini-batch. If the last expectation was right, and no other process
        has it, it is made now."""
        if self._processes is not None:
            return
        self._expected = number
        if not self._expects_well:
            return
        try:
            self._made_ahead = self._make(number, list(indices))
        except Exception:  # pylint: disable=broad-except
            pass  # It is raised again if this mini-batch is asked for.

    def close(self) -> None:
        """Ends the other processes."""
        if self._processes is not None:
            self._processes.shutdown(cancel_futures=True)

    def _load_here(self, number, indices):
        if self._expected is not None:
            self._expects_well = number == self._expected
        made, self._made_ahead, self._expected = self._made_ahead, None, None
        if made is not None and self._expects_well:
            self.loaded_early_total += 1
            return made
        return self._make(number, list(indices))

    def _submit(self, number, indices):
        return self._processes.submit(_make_here, number, list(indices))


class _Make:
    """A mini-batch of its number and the indices of its samples."""

    def __init__(self, dataset, collate, seed):
        self._dataset = dataset
        self._collate = collate
        self._seed = seed

    def __call__(self, number: int, indices: list[int]) -> Any:
        seed_all(self._seed, number, 0)
        # PyTorch 2's DataLoader asks for all at once where the dataset can.
        all_at_once = getattr(self._dataset, "__getitems__", None)
        return self._collate(all_at_once(indices) if all_at_once else
                             [self._dataset[i] for i in indices])


_make: _Make | None = None  # In a process of a pool.


def _start(loader, make):
    context = (loader.multiprocessing_context or
               torch.multiprocessing.get_context())
    numbers = context.SimpleQueue()
    for number in range(loader.num_workers):
        numbers.put(number)
    return concurrent.futures.ProcessPoolExecutor(
        loader.num_workers, context, _begin,
        (make, loader.worker_init_fn, numbers))


def _begin(make, worker_init_fn, numbers):
    global _make  # pylint: disable=global-statement
    _make = make
    # Else it would wait for work for ever once the program was killed.
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    torch.set_num_threads(1)  # As the processes of a DataLoader.
    if worker_init_fn is not None:
        worker_init_fn(numbers.get())


def _make_here(number, indices):
    return _make(number, indices)
