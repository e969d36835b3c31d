"""A model process: computes gradients for the worker that started it, or
measures versions for the evaluator that did.

docs/model_process.md describes the protocol that this module speaks. A program
prepares its model and data, and then computes one task after the other:

    from sluice import model_process

    def prepare(description):
        data = load(description.train_samples)

        def compute(task):
            # Read task.weights, a flat vector of floats; write task.gradient,
            # the mean over the samples in task.batches[0].
            ...
            return loss

        return compute

    model_process.serve(prepare)

The worker runs it: `worker --job=J --worker=0 -- python3 program.py`. Weights
and gradients are memory that both processes share, and nothing is copied.

The job's evaluator runs the same program where the job has test samples.
`description.role` is "evaluator" then, and what `prepare` returns is called
with each Evaluation and returns the loss, or the loss and the accuracy:

    def prepare(description):
        if description.role == "evaluator":
            test = load_test(description.test_samples)
            return lambda evaluation: loss_and_accuracy(test, evaluation.weights)
        ...

Only the standard library is needed, and any library may be used beside it:
`numpy.frombuffer(task.weights, dtype="float32")` has the vector as an array.

Not thread-safe: call from one thread.
"""

import dataclasses
import faulthandler
import json
import math
import mmap
import os
import socket
import stat
import struct
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sluice import __version__

PROTOCOL = 1
SOCKET_VARIABLE = "SLUICE_MODEL_SOCKET"
LONGEST_MESSAGE = 4096

(HELLO, READY, TASK, FINAL, RESULT, FAILED, CANCEL, CANCELLED, STOP, EVALUATE,
 EVALUATED, LOG) = range(1, 13)

_HELLO = struct.Struct("<IIII")
_READY = struct.Struct("<II")
_TASK = struct.Struct("<IIIIQqdqqqII")
_FINAL = struct.Struct("<IIQq")
_RESULT = struct.Struct("<IIQqd")
_EVALUATE = struct.Struct("<IIQqq")
_EVALUATED = struct.Struct("<IIQqdd")
_LOG = struct.Struct("<IIQd")
_OF_TASK = struct.Struct("<IIQ")  # FAILED, CANCEL, CANCELLED
_MOST_DESCRIPTORS = 253  # That one message can carry.


class Cancelled(BaseException):
    """Nobody wants the result of this task any more. Let it pass; like
    KeyboardInterrupt, no `except Exception` holds it up."""


class ProtocolError(Exception):
    """The worker sent what it must not."""


class _Stop(SystemExit):
    """The worker has said STOP, or is gone: this process ends, with 0."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A named part of the flat vector."""
    name: str
    shape: tuple[int, ...]
    offset: int  # Floats from the start of the flat vector.
    kind: str    # "WEIGHT", "BIAS", "NORM" or "STATISTIC"

    @property
    def size(self) -> int:
        """Floats."""
        size = 1
        for side in self.shape:
            size *= side
        return size


@dataclasses.dataclass(frozen=True)
class Description:
    """What the job says of the model and its data."""
    job: str
    seed: int
    worker: int
    threads: int     # That this process may compute with.
    batch_size: int  # Samples of a full mini-batch.
    train_samples: int
    test_samples: int
    parameters: int  # Floats of the flat vector.
    tensors: tuple[Tensor, ...]
    role: str = "worker"  # Or "evaluator": who has started this process.
    partitions: int = 1  # Of the training samples; they take turns.

    @property
    def partition_sizes(self) -> list[int]:
        """Samples of each, as common/batch_grid.cc cuts them."""
        small, larger = divmod(self.train_samples, self.partitions)
        return [small + (p < larger) for p in range(self.partitions)]

    def epoch_at(self, batch: int) -> float:
        """How often mini-batches 0 to `batch` - 1 go through the training
        samples: a whole number where an epoch begins, whose last mini-batch may
        be short."""
        sizes = self.partition_sizes
        epochs, within = divmod(
            batch, sum(-(-size // self.batch_size) for size in sizes))
        rounds, turn = divmod(within, self.partitions)
        samples = sum(min((rounds + (p < turn)) * self.batch_size, size)
                      for p, size in enumerate(sizes))
        return (epochs * self.train_samples + samples) / self.train_samples

    @staticmethod
    def from_json(text: bytes) -> "Description":
        fields = json.loads(text)
        if fields.pop("protocol") != PROTOCOL:
            raise ProtocolError(f"the job is not of protocol {PROTOCOL}")
        version = fields.pop("version")
        if version != __version__:
            raise ProtocolError(f"the worker is of version {version}, expected "
                                f"{__version__} as this package: install the "
                                "same version of both")
        names = {field.name for field in dataclasses.fields(Description)}
        fields = {name: fields[name] for name in names}
        fields["tensors"] = tuple(
            Tensor(t["name"], tuple(t["shape"]), t["offset"], t["kind"])
            for t in fields["tensors"])
        return Description(**fields)


class _Asked:
    """What a Task and an Evaluation have in common."""

    def __init__(self, link: "_Link", number: int):
        self.number = number
        self.over = False  # Done or given up.
        self._link = link

    def check(self) -> None:
        """Raises Cancelled if nobody waits for it any more. Does not block, and
        in a process that this one has forked does nothing."""
        self._link.check(self.number)

    def log(self, values: Mapping[str, float]) -> None:
        """Has metrics.jsonl show these values, by name: of tasks a moving
        average, of an evaluation what it was. The newest value of a name
        stands. A name has 1 to 64 letters, digits and _ . / -, and there are
        at most 64 of them: else the worker ends this program."""
        for name, value in values.items():
            self._link.send(_LOG.pack(LOG, 0, self.number, value) +
                            name.encode())

    def give_up(self) -> None:
        """Answers a cancel."""
        self._link.send(_OF_TASK.pack(CANCELLED, 0, self.number))
        self.over = True


class Task(_Asked):
    """One or more consecutive mini-batches whose gradient is wanted.

    number       counts the worker's tasks from 1
    first_batch  the number of the first mini-batch
    rate         of the steps of SGD between one mini-batch and the next
    batches      for each mini-batch, the indices of its training samples
    next_first_batch, next_batches
                 the same of what is likely to be wanted then
    weights      the flat vector, to be read: a memoryview of floats, which is
                 Worker.weights[weights_buffer]
    gradient     the flat vector, to be written whole: the sum over the
                 mini-batches of their gradients, each the mean over its
                 samples; where a tensor is a STATISTIC, its own value

    The views are valid until the task is over.
    """

    def __init__(self, link: "_Link", packet: bytes):
        (_, self.weights_buffer, self.gradient_buffer, batches, number,
         self.first_batch, self.rate, self.samples, _, self.next_first_batch,
         following, _) = _TASK.unpack(packet)
        super().__init__(link, number)
        self.weights = link.weights[self.weights_buffer]
        self.gradient = link.gradients[self.gradient_buffer]
        at = batches + following
        mini_batches = []
        for size in link.indices[:at]:
            mini_batches.append(link.indices[at:at + size])
            at += size
        self.batches = mini_batches[:batches]
        self.next_batches = mini_batches[batches:]
        self._final_from = len(self.gradient)

    def final_from(self, offset: int) -> None:
        """Says that the gradient from float `offset` on is final, so that it
        begins to travel. From call to call `offset` must not grow. Raises
        Cancelled."""
        if not 0 <= offset <= self._final_from:
            raise ValueError(f"final from float {offset}, expected 0 to "
                             f"{self._final_from}")
        self._final_from = offset
        self._link.send(_FINAL.pack(FINAL, 0, self.number, offset))
        self.check()

    def done(self, loss: float) -> None:
        """The gradient is whole and `loss` the mean over the task's samples.
        Raises Cancelled."""
        self.final_from(0)
        self._link.send(
            _RESULT.pack(RESULT, 0, self.number, self.samples,
                         _number("a loss", loss)))
        self.over = True


class Evaluation(_Asked):
    """The test split is to be measured at the weights of a version.

    number   counts the evaluator's evaluations from 1
    version  whose weights they are
    samples  of the test split, as the job says
    weights  the flat vector, to be read: a memoryview of floats, which is
             Worker.weights[weights_buffer]
    """

    def __init__(self, link: "_Link", packet: bytes):
        (_, self.weights_buffer, number, self.version,
         self.samples) = _EVALUATE.unpack(packet)
        super().__init__(link, number)
        self.weights = link.weights[self.weights_buffer]

    def done(self, loss: float, accuracy: float | None = None) -> None:
        """The means over the samples: of the loss, and the share that is right,
        0 to 1, where that has a meaning."""
        self._link.send(_EVALUATED.pack(
            EVALUATED, 0, self.number, self.samples,
            _number("a test loss", loss), math.nan if accuracy is None else
            _number("a test accuracy", accuracy)))
        self.over = True


class _Link:
    """The socket and the memory that the worker shares."""

    def __init__(self, descriptor: int):
        self._pid = os.getpid()
        self._socket = socket.socket(fileno=descriptor)
        packet, descriptors, _, _ = socket.recv_fds(
            self._socket, LONGEST_MESSAGE, _MOST_DESCRIPTORS)
        if not packet:
            raise _Stop
        kind, protocol, weights, gradients = _HELLO.unpack(packet)
        if kind != HELLO or protocol != PROTOCOL:
            raise ProtocolError(f"message {kind} of protocol {protocol}, "
                                f"expected HELLO ({HELLO}) of {PROTOCOL}")
        if len(descriptors) != weights + gradients + 2:
            raise ProtocolError(f"HELLO with {len(descriptors)} descriptors, "
                                f"expected {weights + gradients + 2}")
        self.weights = [_map(d, mmap.PROT_READ).cast("f")
                        for d in descriptors[:weights]]
        self.gradients = [
            _map(d, mmap.PROT_READ | mmap.PROT_WRITE).cast("f")
            for d in descriptors[weights:-2]]
        self.indices = _map(descriptors[-2], mmap.PROT_READ).cast("q")
        self.description = Description.from_json(
            bytes(_map(descriptors[-1], mmap.PROT_READ)))
        for descriptor in descriptors:
            os.close(descriptor)

    def send(self, packet: bytes) -> None:
        try:
            self._socket.send(packet)
        except (BrokenPipeError, ConnectionResetError):
            raise _Stop from None

    def fail(self, task: int, text: str) -> None:
        room = LONGEST_MESSAGE - _OF_TASK.size
        self.send(_OF_TASK.pack(FAILED, 0, task) +
                  text.encode(errors="replace")[:room])

    def receive(self, flags: int = 0) -> tuple[int, bytes] | None:
        """The next message and its kind; None if there is none now, which
        needs MSG_DONTWAIT."""
        try:
            packet = self._socket.recv(LONGEST_MESSAGE, flags)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            raise _Stop from None
        if len(packet) < 4:
            raise _Stop
        kind = int.from_bytes(packet[:4], "little")
        if kind == STOP:
            raise _Stop
        return kind, packet

    def next(self, expected: int) -> bytes:
        """The next message, which must be of that kind."""
        while True:
            kind, packet = self.receive()
            if kind == expected:
                return packet
            # It came when the task was over.
            if kind != CANCEL:
                raise ProtocolError(
                    f"message of kind {kind}, expected {expected}")

    def check(self, number: int) -> None:
        # A forked process has the same socket: each message is for this one.
        if os.getpid() != self._pid:
            return
        message = self.receive(socket.MSG_DONTWAIT)
        if message is None:
            return
        kind, packet = message
        if kind != CANCEL:
            raise ProtocolError(f"message {kind} in a task, expected CANCEL "
                                f"({CANCEL})")
        if _OF_TASK.unpack(packet)[2] == number:
            raise Cancelled


def _number(what: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{what} is {value!r:.80}, expected a number") from error


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:  # It is not open.
        return False


def _map(descriptor: int, protection: int) -> memoryview:
    size = os.fstat(descriptor).st_size
    return memoryview(mmap.mmap(descriptor, size, prot=protection))


class Worker:
    """The worker that started this program, or the evaluator. One in a
    process."""

    _taken = False

    def __init__(self):
        """Takes over the socket that the worker has left. Exits, with a
        message, where no worker has started this program. From now on an
        exception that ends the program is told to the worker, and a signal as
        of a write into weights leaves a traceback in its log."""
        if Worker._taken:
            raise RuntimeError("this program has its worker already, expected "
                               "one Worker (an Optimizer is one) in a process")
        descriptor = os.environ.get(SOCKET_VARIABLE)
        if not descriptor:
            sys.exit("no worker has started this program: expected `worker "
                     "--job=J --worker=0 -- COMMAND`, or sluice.join(J) at the "
                     f"program's beginning ({SOCKET_VARIABLE} is not set)")
        if not _is_socket(int(descriptor)):
            sys.exit(f"descriptor {descriptor} is no socket, expected the "
                     f"worker's ({SOCKET_VARIABLE}): what the worker started "
                     "did not pass it on to this program (in Python "
                     "subprocess.run(..., close_fds=False))")
        os.environ[SOCKET_VARIABLE] = ""  # Not for the processes of this one.
        Worker._taken = True
        os.set_inheritable(int(descriptor), False)
        # What the program computes with that is not in the job, such as a digest
        # of frozen parameters: up to 256 printable characters of ASCII, set
        # before tasks() or evaluations(). Who has another one than the workers
        # and the evaluator before it is refused.
        self.own_input = ""
        self._task = None
        # They go on where a loop over them was left.
        self._tasks = self._asked("task", Task, TASK)
        self._evaluations = self._asked("evaluation", Evaluation, EVALUATE)
        self._pid = os.getpid()
        self._link = None
        if sys.__stderr__ is not None and not faulthandler.is_enabled():
            faulthandler.enable(sys.__stderr__)
        self._print = sys.excepthook
        sys.excepthook = self._on_exception
        self._link = _Link(int(descriptor))

    @property
    def description(self) -> Description:
        return self._link.description

    @property
    def weights(self) -> list[memoryview]:
        """The vectors of which each task's weights are one."""
        return self._link.weights

    @property
    def gradients(self) -> list[memoryview]:
        """The same of gradients."""
        return self._link.gradients

    def tasks(self) -> Iterator[Task]:
        """Says that this program is ready; then each task, until the worker
        ends. Each must be done or given up before the next one is asked for.
        A second call goes on with the next one; there are none if they have
        come to their end before."""
        self._check_role("worker", "tasks")
        return self._tasks

    def evaluations(self) -> Iterator[Evaluation]:
        """The same of an evaluator."""
        self._check_role("evaluator", "evaluations")
        return self._evaluations

    def _check_role(self, role: str, asked: str) -> None:
        if role != self.description.role:
            raise RuntimeError(f"this program asks for {asked}, which are a "
                               f"{role}'s, but serves a "
                               f"{self.description.role}")

    def _asked(self, name: str, what: type, kind: int) -> Iterator:
        try:
            self._link.send(_READY.pack(READY, PROTOCOL) +
                            self.own_input.encode())
            while True:
                self._task = what(self._link, self._link.next(kind))
                yield self._task
                if not self._task.over:
                    raise ProtocolError(
                        f"{name} {self._task.number} is neither done nor given "
                        "up, and the next one is asked for")
        except _Stop:
            pass

    def _on_exception(self, kind, error, trace):
        self._print(kind, error, trace)
        # A child that the program has forked is not the program.
        if self._link is None or os.getpid() != self._pid:
            return
        number = 0 if self._task is None else self._task.number
        told = traceback.TracebackException(kind, error, None)
        told.__notes__ = None  # Of add_note(): they would be the last line.
        text = list(told.format_exception_only())[-1].strip()
        try:
            self._link.fail(number, text)
        except _Stop:
            pass


def serve(prepare: Callable[[Description], Callable]) -> None:
    """Computes tasks, or makes evaluations, until the worker ends.

    `prepare` is called once, with the job's description. What it returns is
    called with each task and returns the mean loss over the task's samples; of
    an evaluator with each evaluation, and returns the loss or (loss, accuracy).
    The worker is told of an exception in either, which ends the program: it
    starts the program anew.
    """
    worker = Worker()
    compute = prepare(worker.description)
    if worker.description.role == "evaluator":
        for evaluation in worker.evaluations():
            finish_evaluation(evaluation, lambda: compute(evaluation))
        return
    for task in worker.tasks():
        try:
            task.done(compute(task))
        except Cancelled:
            task.give_up()


def finish_evaluation(evaluation: Evaluation, measure: Callable) -> None:
    """Answers it with what `measure()` returns: the loss, or the loss and the
    accuracy."""
    try:
        measured = measure()
        evaluation.done(*measured if isinstance(measured, tuple) else
                        (measured,))
    except Cancelled:
        evaluation.give_up()
