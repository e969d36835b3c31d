"""Mini-batches of the samples that a task names."""

import concurrent.futures
import ctypes
import pickle
import random
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing  # Sends tensors through shared memory.
import torch.utils.data._utils.worker as torch_worker

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
    decides. Its processes have torch's get_worker_info(), whose seed is `seed`
    and the process's number. What is random in a mini-batch is drawn from
    `seed` and its number, in whichever process it is made. Raises TypeError
    where samples cannot be asked for.

    Not thread-safe: call from the thread that trains.
    """

    def __init__(self, dataset: Any, collate: Callable | None, seed: int):
        loader = dataset if isinstance(
            dataset, torch.utils.data.DataLoader) else None
        if loader is not None:
            dataset, collate = loader.dataset, collate or loader.collate_fn
        if isinstance(dataset, torch.utils.data.IterableDataset):
            raise TypeError(
                f"{dataset!r:.200} has samples in an order of its own")
        if loader is not None and loader.batch_sampler is None:
            raise TypeError("the DataLoader has batch_size=None: its dataset "
                            "makes the mini-batches, whose samples the cluster "
                            "chooses")
        if not hasattr(dataset, "__len__"):
            raise TypeError(f"{dataset!r:.200} has no len()")
        self.samples = len(dataset)
        # As the loader has them, and as the cluster must. A batch_sampler of
        # the program's own may not tell.
        sampler = None if loader is None else loader.batch_sampler
        self.batch_size = getattr(sampler, "batch_size", None)
        self.drops_last = getattr(sampler, "drop_last", False)
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
            self._processes = _start(loader, self._make, seed)

    def load(self, number: int, indices: Sequence[int],
             following: Numbered = ()) -> Any:
        """Mini-batch `number`, of these samples. Other processes begin with
        the `following`, too, which are likely to be wanted next. Raises what
        the dataset, `collate` or worker_init_fn raises, and BrokenProcessPool
        where a process was killed, or ended before it could do anything."""
        if self._processes is None:
            return self._load_here(number, indices)
        self.loaded_early_total += number in self._early
        made = self._early.pop(number, None) or self._submit(number, indices)
        for passed in [n for n in self._early if n < number]:
            self._early.pop(passed).cancel()
        for n, of in following:
            if n not in self._early and len(self._early) < self._most_early:
                self._early[n] = self._submit(n, of)
        try:
            return made.result()
        except BrokenProcessPool as error:
            raise BrokenProcessPool(_WHY_BROKEN) from error

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
        self.dataset = dataset
        self._collate = collate
        self._seed = seed

    def __call__(self, number: int, indices: list[int]) -> Any:
        seed_all(self._seed, number, 0)
        # PyTorch 2's DataLoader asks for all at once where the dataset can.
        all_at_once = getattr(self.dataset, "__getitems__", None)
        return self._collate(all_at_once(indices) if all_at_once else
                             [self.dataset[i] for i in indices])


_WHY_BROKEN = (
    "a process of the DataLoader was killed, or has ended with the error that is "
    "in the log before this. (A process that is not forked but spawned runs the "
    "program's own file first: all of it but imports and definitions must "
    'stand under `if __name__ == "__main__":`.)')


class _Sent:
    """The value is sent to a process that is not forked, where an error in
    making it again is `failure`."""

    def __init__(self, value: Any, failure: Exception | None = None):
        self.value = value
        self.failure = failure

    def __reduce__(self):
        return _receive, (bytes(ForkingPickler.dumps(self.value)),)


def _receive(pickled: bytes) -> _Sent:
    try:
        return _Sent(pickle.loads(pickled))
    except Exception as error:  # pylint: disable=broad-except
        return _Sent(None, error)


# In a process of a pool: what makes its mini-batches, or why nothing can.
_make: _Make | None = None
_failure: Exception | None = None


def _start(loader, make, seed):
    # Python's default is another one from 3.14 on.
    context = (loader.multiprocessing_context or
               torch.multiprocessing.get_context("fork"))
    numbers = context.SimpleQueue()
    for number in range(loader.num_workers):
        numbers.put(number)
    return concurrent.futures.ProcessPoolExecutor(
        loader.num_workers, context, _begin,
        (_Sent((make, loader.worker_init_fn)), numbers, loader.num_workers,
         seed))


def _begin(sent, numbers, num_workers, seed):
    global _make, _failure  # pylint: disable=global-statement
    # Else it would wait for work for ever once the program was killed.
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    try:
        if sent.failure is not None:
            raise sent.failure
        _make, worker_init_fn = sent.value
        _prepare(worker_init_fn, numbers.get(), num_workers, seed)
    except Exception as error:  # pylint: disable=broad-except
        _failure = error  # Raised here it would be lost.


def _prepare(worker_init_fn, number, num_workers, seed):
    """As torch does it in the processes of a DataLoader."""
    torch.set_num_threads(1)
    seed = (seed + number) % 2**63
    random.seed(seed)
    torch.manual_seed(seed)
    torch_worker._worker_info = torch_worker.WorkerInfo(
        id=number, num_workers=num_workers, seed=seed, dataset=_make.dataset)
    if worker_init_fn is not None:
        worker_init_fn(number)


def _make_here(number, indices):
    if _failure is not None:
        raise _failure
    return _make(number, indices)
