"""The worker's memory as the tensors that a PyTorch model computes with."""

import contextlib
import functools
import warnings
from collections import deque
from collections.abc import Iterator

import torch

from sluice import model_process

_CPU = torch.device("cpu")
# cudaHostRegisterReadOnly, of memory that this process may not write.
_READ_ONLY = 8


def _views(flat: torch.Tensor,
           tensors: tuple[model_process.Tensor, ...]) -> list[torch.Tensor]:
    return [flat[t.offset:t.offset + t.size].view(t.shape) for t in tensors]


class _Shared:
    """A flat vector that the worker shares."""

    def __init__(self, memory: memoryview,
                 tensors: tuple[model_process.Tensor, ...]):
        self._memory = memory
        self._tensors = tensors
        self._is_pinned = False
        self._make()
        self._address = self._flat.data_ptr()

    @property
    def flat(self) -> torch.Tensor:
        """Another one than before where one of the views was sent to another
        process: torch moves what it sends, and all that is a view of the same
        memory, into memory of its own."""
        if self._flat.data_ptr() != self._address:
            self._make()
        return self._flat

    @property
    def views(self) -> list[torch.Tensor]:
        """One for each tensor."""
        _ = self.flat
        return self._of_flat

    def pin(self, flags: int) -> None:
        """For copies to the present GPU and from it. Once is enough."""
        if self._is_pinned:
            return
        self._is_pinned = True
        flat = self.flat
        error = int(torch.cuda.cudart().cudaHostRegister(
            flat.data_ptr(), flat.numel() * flat.element_size(), flags))
        if error:
            # It would be raised by whatever comes next.
            with contextlib.suppress(RuntimeError):
                torch.zeros(1, device="cuda")
            warnings.warn("CUDA does not pin the worker's memory (error "
                          f"{error}): copies to the GPU and from it take "
                          "several times as long", stacklevel=2)

    def _make(self) -> None:
        with warnings.catch_warnings():
            # Weights are read-only on purpose.
            warnings.filterwarnings("ignore", message=".*not writable")
            self._flat = torch.frombuffer(self._memory, dtype=torch.float32)
        self._of_flat = _views(self._flat, self._tensors)


class _Mirror:
    """A vector of weights and, once it is asked for, one of the gradient on
    another device."""

    def __init__(self, device: torch.device,
                 description: model_process.Description):
        self._device = device
        self._description = description
        self.flat_weights = self._empty()
        self.weights = _views(self.flat_weights, description.tensors)
        # A GPU copies gradients in it, beside what computes.
        self.stream = (torch.cuda.Stream(device) if device.type == "cuda" else
                       None)

    @functools.cached_property
    def flat(self) -> torch.Tensor:
        return self._empty()

    @functools.cached_property
    def gradient(self) -> list[torch.Tensor]:
        return _views(self.flat, self._description.tensors)

    def _empty(self) -> torch.Tensor:
        return torch.empty(self._description.parameters, dtype=torch.float32,
                           device=self._device)


class Memory:
    """Weights and gradient of the present task, as float32 tensors on one
    device: one for each of the job's.

    On the CPU they are views of what the worker shares, and nothing is copied;
    the weights are read-only. On another device they are views of two vectors
    there: begin() copies the weights to it, and what send_from() says is final
    is copied back. To and from a GPU these copies are asynchronous, and what
    the worker shares is pinned.

    Not thread-safe, but not bound to a thread: backward() has others.
    """

    def __init__(self, worker: model_process.Worker):
        self._description = worker.description
        self._weights, self._gradients = [
            [_Shared(memory, self._description.tensors) for memory in of_kind]
            for of_kind in (worker.weights, worker.gradients)]
        self._of_task = self._weights[0], self._gradients[0]
        self.device: torch.device | None = None
        self._mirror: _Mirror | None = None
        # From which float on the gradient is final, and from which on it is in
        # the worker's memory.
        self.final_from = self.arrived_from = self._description.parameters
        # Copies that may not have ended, and arrived_from after each.
        self._copies: deque[tuple[torch.cuda.Event, int]] = deque()

    @property
    def weights(self) -> list[torch.Tensor]:
        """Of the task. They stay as they are until the next begin()."""
        return self._mirror.weights if self._mirror else self._of_task[0].views

    @property
    def gradient(self) -> list[torch.Tensor]:
        """Of the task, to be written."""
        return self._mirror.gradient if self._mirror else self._of_task[1].views

    @property
    def is_the_workers(self) -> bool:
        """What is computed with is the worker's own memory."""
        return self._mirror is None

    def zero_gradient(self) -> None:
        """All of it."""
        (self._mirror or self._of_task[1]).flat.zero_()

    def begin(self, device: torch.device, weights: int, gradient: int) -> None:
        """The next task, with these buffers of the worker's, on `device`."""
        for _ in self.arrivals():  # Of a task that was given up.
            pass
        self._of_task = self._weights[weights], self._gradients[gradient]
        self.final_from = self.arrived_from = self._description.parameters
        if device != self.device:
            self.device = device
            self._mirror = None if _is_workers(device) else _Mirror(
                device, self._description)
        if self._mirror:
            if device.type == "cuda":
                with torch.cuda.device(device):
                    self._of_task[0].pin(_READ_ONLY)
            self._mirror.flat_weights.copy_(self._of_task[0].flat,
                                            non_blocking=True)

    def send_from(self, offset: int) -> None:
        """The gradient is final from this float on. What of it was not before
        goes to the worker's memory."""
        final = slice(offset, self.final_from)
        self.final_from = offset
        if self._mirror is None:
            self.arrived_from = offset
            return
        to, part = self._of_task[1].flat[final], self._mirror.flat[final]
        if self._mirror.stream is None:
            to.copy_(part)
            self.arrived_from = offset
            return
        self._mirror.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._mirror.stream):
            self._of_task[1].pin(0)
            to.copy_(part, non_blocking=True)
            self._copies.append(
                (torch.cuda.current_stream().record_event(), offset))

    def look(self) -> int:
        """`arrived_from` by now."""
        while self._copies and self._copies[0][0].query():
            _, self.arrived_from = self._copies.popleft()
        return self.arrived_from

    def arrivals(self) -> Iterator[int]:
        """Waits until all that was sent has arrived; `arrived_from` on the
        way."""
        while self._copies:
            event, offset = self._copies.popleft()
            event.synchronize()
            self.arrived_from = offset
            yield offset


def _is_workers(device: torch.device) -> bool:
    """Whether its memory can be the worker's."""
    return device == _CPU
