"""A PyTorch training loop as a model process of Sluice.

    import sluice.torch

    opt = sluice.torch.Optimizer(model)
    for images, labels in opt.batches(dataset):
        opt.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        opt.step(loss)

The cluster decides which samples come and what becomes of each gradient; the
loop ends when the run does. `init` writes the job of a model, and `./sluice
train FOLDER/job.textproto -- python3 program.py` starts such a loop for each
worker (docs/pytorch.md).

The model's parameters are views of the memory in which the worker receives
weights, and their gradients views of the memory that it pushes, so nothing is
copied. The weights are read-only: whoever writes into a parameter ends the
process.
"""

import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from sluice import model_process
# pylint: disable-next=unused-import
from sluice.torch_job import BatchNorm, ModelTensor, init, load, tensors_of


class MisuseError(Exception):
    """The loop did something that it must not: says what was expected and what
    came."""


class Optimizer:
    """Stands where a loop has its torch optimizer. The update itself is made by
    the cluster, as the job's `optimizer` says.

    Not thread-safe: call from the thread that trains.
    """

    def __init__(self, model: torch.nn.Module,
                 worker: model_process.Worker | None = None):
        """`model` is as the job describes it. Its tensors become views of the
        worker's memory, so the weights that it had are gone. Raises MisuseError
        where it is another model. `worker`: the one that started this process,
        unless somebody has it already."""
        self._worker = worker or model_process.Worker()
        self._model = model
        self._tensors = tensors_of(model)
        self._check_model()
        for module in model.modules():
            # A running statistic is then the mini-batch's own value, of which
            # the cluster makes the moving average.
            if isinstance(module, BatchNorm):
                module.momentum = 1.0
        with warnings.catch_warnings():
            # They are read-only on purpose.
            warnings.filterwarnings("ignore", message=".*not writable")
            self._weights = [self._views(w) for w in self._worker.weights]
        self._gradients = [self._views(g) for g in self._worker.gradients]
        self._gradient = self._gradients[0]  # Of the present task.
        self._task: model_process.Task | None = None
        self.copied_total = 0  # Gradients that were not in their place.
        torch.set_num_threads(self.description.threads)

    @property
    def description(self) -> model_process.Description:
        """What the job says."""
        return self._worker.description

    def batches(self, dataset: Any, collate: Any = None) -> Iterator[Any]:
        """The mini-batches that the cluster hands out, until the run ends: what
        `collate` (default: torch's) makes of the samples dataset[i]. Before
        each of them the model has the weights to compute at, and torch, NumPy
        and random are seeded by the job's seed and the mini-batch's number."""
        self._check_dataset(dataset)
        for task in self._worker.tasks():
            yield self._begin(task, dataset, collate)
            if not task.over:
                raise MisuseError(f"step(loss) was not called for mini-batch "
                                  f"{task.first_batch}")

    def run(self, compute: Callable[[Any], torch.Tensor], dataset: Any,
            collate: Any = None) -> None:
        """The whole loop: `compute` takes a mini-batch, as of batches(), and
        returns its loss; the rest is done here. A mini-batch that the cluster
        gives up is left when the next module of the model is called, and not
        only in the end."""
        self._check_dataset(dataset)
        hooks = [module.register_forward_pre_hook(self._check_task)
                 for module in self._model.modules()]
        try:
            for task in self._worker.tasks():
                try:
                    loss = compute(self._begin(task, dataset, collate))
                    task.check()
                    loss.backward()
                    self.step(loss)
                except model_process.Cancelled:
                    task.give_up()
        finally:
            for hook in hooks:
                hook.remove()

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Sets the gradients to zero, and puts them in their place.
        `set_to_none` is accepted as in torch, and makes no difference."""
        for one, place in zip(self._tensors, self._gradient):
            place.zero_()
            if not one.is_statistic:
                one.tensor.grad = place

    def step(self, loss: torch.Tensor | float) -> None:
        """Delivers the gradients that the parameters have, and the loss, the
        mean over the mini-batch. If the cluster has given the mini-batch up
        meanwhile, nothing is delivered."""
        task = self._task
        if task is None or task.over:
            raise MisuseError("step(loss) was called twice for a mini-batch, or "
                              "outside of the loop over batches()")
        for one, place in zip(self._tensors, self._gradient):
            self._collect(one, place)
        try:
            task.done(float(loss))
        except model_process.Cancelled:
            task.give_up()

    def _begin(self, task: model_process.Task, dataset: Any,
               collate: Any) -> Any:
        if len(task.batches) != 1:
            raise MisuseError(f"a task has {len(task.batches)} mini-batches, "
                              "expected 1: the job's sync.local_steps needs a "
                              "loop of its own")
        self._task = task
        self._place(self._weights[task.weights_buffer])
        self._gradient = self._gradients[task.gradient_buffer]
        self._seed(task.first_batch)
        self.zero_grad()
        collate = collate or torch.utils.data.default_collate
        return collate([dataset[i] for i in task.batches[0]])

    def _check_task(self, *_: Any) -> None:
        # Modules may be called outside of a task, too.
        if self._task is not None and not self._task.over:
            self._task.check()

    def _check_dataset(self, dataset: Any) -> None:
        expected = self.description.train_samples
        if len(dataset) != expected:
            raise MisuseError(f"the dataset has {len(dataset)} samples, the "
                              f"job's data.external.train_samples is "
                              f"{expected}")

    def _seed(self, batch: int) -> None:
        # Mini-batches follow each other, and so must not their seeds: in many
        # generators near seeds give near draws.
        seed = (self.description.seed * 0x9E3779B97F4A7C15 +
                batch * 0xBF58476D1CE4E5B9) % 2**63
        torch.manual_seed(seed)
        random.seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed % 2**32)

    def _place(self, weights: list[torch.Tensor]) -> None:
        """The model computes at these."""
        for one, values in zip(self._tensors, weights):
            if one.is_statistic:  # The model writes it.
                one.tensor.copy_(values)
            else:
                one.tensor.data = values

    def _collect(self, one: ModelTensor, place: torch.Tensor) -> None:
        """Has the tensor's part of the gradient in its place."""
        value = one.tensor if one.is_statistic else one.tensor.grad
        if value is None:  # The loss does not depend on it.
            place.zero_()
            return
        if value.data_ptr() == place.data_ptr():
            return
        if value.shape != place.shape or value.dtype != place.dtype:
            raise MisuseError(
                f"the gradient of {one.name} is {value.dtype} "
                f"{tuple(value.shape)}, expected {place.dtype} "
                f"{tuple(place.shape)}")
        place.copy_(value)
        self.copied_total += not one.is_statistic

    def _views(self, memory: memoryview) -> list[torch.Tensor]:
        flat = torch.frombuffer(memory, dtype=torch.float32)
        return [flat[t.offset:t.offset + t.size].view(t.shape)
                for t in self.description.tensors]

    def _check_model(self) -> None:
        expected = [(t.name, t.shape, t.kind) for t in self.description.tensors]
        found = [(t.name, tuple(t.tensor.shape), t.kind) for t in self._tensors]
        for one, other in zip(expected, found):
            if one != other:
                raise MisuseError(f"the model has {other}, expected {one} as "
                                  "the job says")
        if len(expected) != len(found):
            raise MisuseError(f"the model has {len(found)} tensors, expected "
                              f"{len(expected)} as the job says")
