"""A PyTorch training loop as a model process of Sluice.

    import sluice.torch

    opt = sluice.torch.Optimizer(model)
    for images, labels in opt.batches(dataset):
        opt.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        opt.step(loss)
    opt.evaluate(lambda: loss_and_accuracy(model, test_data))

The cluster decides which samples come and what becomes of each gradient; the
loop ends when the run does. The job's evaluator runs the same program, whose
loop is empty then, and whose last line measures versions. `init` writes the job of a model, and `./sluice
train FOLDER/job.textproto -- python3 program.py` starts such a loop for each
worker (docs/pytorch.md).

The model's parameters are views of the memory in which the worker receives
weights, and their gradients views of the memory that it pushes, so nothing is
copied. The weights are read-only: whoever writes into a parameter ends the
process. On a GPU they are views of two vectors there, which are copied to and
from that memory. Parameters that are not float32, and those of LocalSteps, have
memory of their own.
"""

import atexit
import contextlib
import copy
import math
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from sluice import model_process, torch_evaluation
# pylint: disable-next=unused-import
from sluice.torch_job import (BatchNorm, MisuseError, ModelTensor, fixed_digest,
                              fixed_digests, init, load, tensors_of)
from sluice.torch_loading import Loading, seed_all
from sluice.torch_memory import Memory

# Bytes of gradient that are worth a message of their own.
_WORTH_SENDING = 1 << 20

# What a value may be logged as (common/telemetry/logged_values.h).
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,64}")


def _weigh_next_call(module: BatchNorm, *_: Any) -> None:
    """Of a batch norm that was called: call n of a mini-batch has the momentum
    1 / n, so that its statistics are the mean of those of the calls. A copy
    of the model may have the hook and None, which means the same mean."""
    if module.training and module.momentum is not None:
        module.momentum /= 1 + module.momentum


def _check_max_norm(model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        if (isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and
                module.max_norm is not None and module.weight.requires_grad):
            raise MisuseError(
                f"{name or type(module).__name__} has max_norm="
                f"{module.max_norm}, expected None: its forward writes into its "
                "weights, which are read-only; LocalSteps has weights of its "
                "own")


def _number_of(loss: torch.Tensor | float) -> float:
    if not isinstance(loss, torch.Tensor):
        return loss
    if loss.numel() != 1:
        raise MisuseError(f"step(loss) was given a loss of the shape "
                          f"{list(loss.shape)}, expected one number: the mean "
                          "over the mini-batch")
    return loss.item()


def _is_at(place: torch.Tensor, tensor: torch.Tensor | None) -> bool:
    return (tensor is not None and tensor.layout == torch.strided and
            tensor.data_ptr() == place.data_ptr())


@torch.no_grad()
def _copy(values: list[torch.Tensor], to: list[torch.Tensor]) -> None:
    """Each to its own; in one call where PyTorch has one (from 2.1 on)."""
    if hasattr(torch, "_foreach_copy_") and to:
        torch._foreach_copy_(to, values)  # pylint: disable=protected-access
        return
    for tensor, value in zip(to, values):
        tensor.copy_(value)


class _Training:
    """What Optimizer and LocalSteps have in common: a loop over the mini-batches
    of the worker's tasks.

    Not thread-safe: call from the thread that trains.
    """

    def __init__(self, model: torch.nn.Module,
                 worker: model_process.Worker | None):
        self._worker = worker or model_process.Worker()
        self._model = model
        self._tensors = tensors_of(model)
        self._check_model()
        # Each parameter, and whether the job has it.
        self._trained = [(name, parameter, parameter.requires_grad)
                         for name, parameter in model.named_parameters()]
        self._batch_norms = [module for module in model.modules()
                             if isinstance(module, BatchNorm)
                             and module.running_mean is not None]
        # While a mini-batch is computed, what gives each its own back.
        self._own_momentum = contextlib.ExitStack()
        self._memory = Memory(self._worker)
        # Which of the tensors are statistics. Modules may replace these.
        self._statistics = [at for at, one in enumerate(self._tensors)
                            if one.is_statistic]
        # The others are the same objects as long as the model trains.
        self._parameters = [(at, one.tensor)
                            for at, one in enumerate(self._tensors)
                            if not one.is_statistic]
        self._task: model_process.Task | None = None
        self._batch = 0  # The present mini-batch's number.
        self._awaits_step = False
        self._logged: dict[str, float] = {}  # And not sent yet.
        self._warned_of: set[str] = set()
        # fixed_digests before the first mini-batch, until they are compared.
        self._fixed: dict[str, str] | None = None
        # Goes on where a loop over batches() was left; None before the first
        # one and after the last.
        self._mini_batches: Iterator[Any] | None = None
        self._run_is_over = False
        self._loading: Loading | None = None
        self._runs = False  # run() computes, and catches Cancelled.
        self._has_evaluated = False
        if self._serves_evaluator():
            atexit.register(self._say_unless_evaluated)
        torch.set_num_threads(self.description.threads)

    @property
    def description(self) -> model_process.Description:
        """What the job says."""
        return self._worker.description

    @property
    def epoch(self) -> float:
        """Where in the run the present mini-batch is: 1.5 is the middle of the
        second epoch, and each epoch begins at a whole number. The same for a
        mini-batch whoever computes it."""
        return self.description.epoch_at(self._batch)

    @property
    def loaded_early_total(self) -> int:
        """Mini-batches that were loaded, or begun, before they were asked
        for."""
        return 0 if self._loading is None else self._loading.loaded_early_total

    def batches(self, dataset: Any,
                collate: Callable | None = None) -> Iterator[Any]:
        """The mini-batches that the cluster hands out, until the run ends: what
        `collate` (default: torch's) makes of the samples dataset[i].

        `dataset` may be a DataLoader, too: its processes then load what is
        likely to come next. Its order and its sampler do not count.

        Before each mini-batch the model has the weights to compute at, and
        torch, NumPy and random are seeded by the job's seed and the
        mini-batch's number.

        Where a loop over them was left after step(), the next call goes on with
        the next mini-batch. There is none in the evaluator's process, which goes on to
        evaluate(), nor once the run is over. The model then has the weights of
        the last mini-batch here, and not the final ones."""
        if self._serves_evaluator() or self._run_is_over:
            return
        loading = self._loading_of(dataset, collate)
        loading.loaded_early_total = self.loaded_early_total
        self._loading = loading
        if self._mini_batches is None:
            self._check_trained()
            self._fixed = fixed_digests(self._model)
            self._worker.own_input = fixed_digest(self._fixed)
            self._mini_batches = self._batches_of_tasks()
        try:
            # `yield from` would end them with the caller's loop.
            for batch in self._mini_batches:
                yield batch
        finally:
            loading.close()

    def _batches_of_tasks(self) -> Iterator[Any]:
        try:
            for task in self._worker.tasks():
                self._task = task
                self._begin_at(task.weights_buffer, task.gradient_buffer)
                self._begin()
                # The indices are the task's, and its time ends within the loop.
                following = [(task.next_first_batch, list(indices))
                             for indices in task.next_batches[:1]]
                yield from self._batches_of(task)
                for expected in following:
                    self._loading.expect(*expected)
            self._run_is_over = True
        finally:
            self._mini_batches = None

    def run(self, compute: Callable[[Any], torch.Tensor], dataset: Any,
            collate: Callable | None = None) -> None:
        """The whole loop: `compute` takes a mini-batch, as of batches(), and
        returns its loss; the rest is done here. A mini-batch that the cluster
        gives up is left when the next module of the model is called, and not
        only in the end."""
        with contextlib.ExitStack() as hooks:
            for hook in torch_evaluation.hook_modules(self._model,
                                                      self._check_task):
                hooks.callback(hook.remove)
            for batch in self.batches(dataset, collate):
                try:
                    self._runs = True
                    self.zero_grad()
                    loss = compute(batch)
                    self._check_task()
                    loss.backward()
                    self.step(loss)
                except model_process.Cancelled:
                    self._take_logged()  # Not for the next mini-batch.
                    self._task.give_up()
                finally:
                    self._runs = False

    def evaluate(self,
                 measure: Callable[[], torch_evaluation.Measured]) -> None:
        """In the evaluator's process: has each version that the evaluator asks
        about measured, until the run ends. `measure()` returns the mean loss
        over the test data, or (loss, accuracy); the model is then in eval mode,
        with the version's weights and statistics, and needs no gradients. In a
        worker's process this does nothing. To be called after the loop."""
        if self._serves_evaluator():
            self._has_evaluated = True
            self._worker.own_input = fixed_digest(fixed_digests(self._model))
            torch_evaluation.serve(
                self._worker, self._model, self._begin_version, measure,
                self._take_logged)

    def _say_unless_evaluated(self) -> None:
        # Of one that an exception has ended Python has said why.
        if not self._has_evaluated and not hasattr(sys, "last_value"):
            print("sluice: the program has ended without a call of "
                  "evaluate(measure), which the evaluator of a job with "
                  "test_samples needs", file=sys.stderr)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Before backward(), as in torch."""
        raise NotImplementedError

    def log(self, values: Mapping[str, torch.Tensor | float]) -> None:
        """Values that metrics.jsonl is to show, by name: `{"gradient_norm":
        norm}`. They are sent by step(), so what is logged after it goes with
        the next mini-batch, and shown as a moving average over all workers'
        gradients (`logged`). Within measure() of evaluate() they are those of
        the evaluation (`test_logged`). A name has 1 to 64 letters, digits and
        _ . / -, and a run has at most 64 names."""
        for name, value in values.items():
            if not _NAME.fullmatch(name):
                raise MisuseError(f"a value logged as {name!r}, expected a name "
                                  "of 1 to 64 letters, digits and _ . / -")
            value = float(value)
            if not math.isfinite(value) and not self._serves_evaluator():
                self._warn_once(
                    f"log {name}", f"the value logged as {name} is {value} in "
                    f"mini-batch {self._batch}: the moving average leaves it "
                    "out (said once for each name)", callers=1)
            self._logged[name] = value

    def step(self, loss: torch.Tensor | float) -> None:
        """The mini-batch is computed, and this is the mean loss over it. If the
        cluster has given it up meanwhile, nothing comes of it."""
        if not self._awaits_step or self._task.over:
            raise MisuseError("step(loss) was called twice for a mini-batch, or "
                              "outside of the loop over batches()")
        self._awaits_step = False
        self._check_trained()
        self._check_fixed()
        self._take_statistics()
        self._task.log(self._take_logged())
        try:
            self._step(_number_of(loss))
        except model_process.Cancelled:
            self._task.give_up()

    def _check_trained(self) -> None:
        kept = {id(parameter) for parameter in self._model.parameters()}
        for name, parameter, trained in self._trained:
            if trained and id(parameter) not in kept:
                raise MisuseError(
                    f"{name} is no parameter of the model any more, expected "
                    "the model to keep the Parameter that it had when "
                    f"sluice.torch.{type(self).__name__} took it: another one "
                    "in its place is not trained (as by "
                    "load_state_dict(..., assign=True))")
            if parameter.requires_grad != trained:
                raise MisuseError(
                    f"{name} has requires_grad={parameter.requires_grad}, "
                    f"expected {trained} as when "
                    f"sluice.torch.{type(self).__name__} took the model: the "
                    "job fixes which parameters are trained")

    def _check_fixed(self) -> None:
        """After the first mini-batch: what no job has is as it was before. A
        buffer that is not persistent may change, as a cache does."""
        before, self._fixed = self._fixed, None
        if before is None:
            return
        kept = self._model.state_dict().keys()
        for name, digest in fixed_digests(self._model).items():
            if name in kept and before.get(name) != digest:
                raise MisuseError(
                    f"{name} has changed in a mini-batch, expected it to stay "
                    "as it was: it is not trained, so neither the other "
                    "processes nor weights.safetensors have its new values (a "
                    "cache of the process's own has persistent=False)")

    def _warn_once(self, of: str, text: str, callers: int) -> None:
        """The program's own line is so many callers up."""
        if of not in self._warned_of:
            self._warned_of.add(of)
            warnings.warn(text, stacklevel=2 + callers)

    def _take_logged(self) -> dict[str, float]:
        taken, self._logged = self._logged, {}
        return taken

    def _begin_statistics(self) -> None:
        """A running statistic becomes the mini-batch's own value, of which the
        cluster makes the moving average."""
        for module in self._batch_norms:
            self._own_momentum.callback(setattr, module, "momentum",
                                        module.momentum)
            module.momentum = 1.0  # Nothing remains of what was before.
            hook = module.register_forward_hook(_weigh_next_call)
            self._own_momentum.callback(hook.remove)

    def _take_statistics(self) -> None:
        """Moves those of the mini-batch into the gradient: the model has the
        cluster's again, and is as the program made it."""
        self._own_momentum.close()
        self._collect_statistics()
        weights = self._memory.weights
        _copy([weights[at] for at in self._statistics],
              self._present_statistics(self._statistics))

    def _present_statistics(self, places: list[int]) -> list[torch.Tensor]:
        return [self._tensors[at].tensor for at in places]

    def _serves_evaluator(self) -> bool:
        return self.description.role == "evaluator"

    def _begin_at(self, weights: int, gradient: int = 0) -> None:
        """The model computes at the weights in this buffer from now on."""
        self._memory.begin(self._tensors[0].tensor.device, weights, gradient)
        self._place()

    def _begin_version(self, weights: int) -> None:
        self._check_trained()
        self._begin_at(weights)

    def _push(self, loss: float) -> None:
        """The gradient is whole. Raises Cancelled."""
        self._memory.send_from(0)
        for offset in self._memory.arrivals():
            self._task.final_from(offset)
        self._task.done(loss)

    def _place(self) -> None:
        """Has the model compute at the memory's weights."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Prepares for the present task, whose weights are in place."""
        raise NotImplementedError

    def _collect_statistics(self) -> None:
        """Those of the mini-batch go into the gradient."""
        raise NotImplementedError

    def _step(self, loss: float) -> None:
        """Raises Cancelled."""
        raise NotImplementedError

    def _batches_of(self, task: model_process.Task) -> Iterator[Any]:
        own = list(enumerate(task.batches, task.first_batch))
        following = list(enumerate(task.next_batches, task.next_first_batch))
        for at, (number, indices) in enumerate(own):
            batch = self._loading.load(number, indices,
                                       own[at + 1:] + following)
            self._batch = number
            seed_all(self.description.seed, number, 1)
            self._begin_statistics()
            self._awaits_step = True
            with self._own_momentum:  # Where step() is not called.
                yield batch
            if task.over:  # It was cancelled, or this was the last one.
                return
            if self._awaits_step:
                raise MisuseError(
                    f"step(loss) was not called for mini-batch {number}")

    def _check_task(self, *_: Any) -> None:
        # The dataset may call modules, too.
        if self._runs and not self._task.over:
            self._task.check()

    def _loading_of(self, dataset: Any, collate: Callable | None) -> Loading:
        try:
            loading = Loading(dataset, collate, self.description.seed)
        except TypeError as error:
            raise MisuseError(
                f"{error}, expected a dataset with len() and dataset[i], or a "
                "DataLoader of one") from error
        expected = self.description.train_samples
        if loading.samples != expected:
            raise MisuseError(f"the dataset has {loading.samples} samples, the "
                              f"job's data.external.train_samples is "
                              f"{expected}")
        expected = self.description.batch_size
        if loading.batch_size not in (None, expected):
            raise MisuseError(f"the DataLoader has mini-batches of "
                              f"{loading.batch_size}, the job's data.batch_size "
                              f"is {expected}")
        self._check_drop_last(loading)
        return loading

    def _check_drop_last(self, loading: Loading) -> None:
        job = self.description
        if loading.drops_last and any(
                size % job.batch_size for size in job.partition_sizes):
            each = f" / {job.partitions} workers" * (job.partitions > 1)
            raise MisuseError(
                "the DataLoader has drop_last=True, but the last mini-batch of "
                "the cluster's epoch is a short one: the job's "
                f"data.external.train_samples is {job.train_samples}{each}, no "
                f"multiple of its data.batch_size, {job.batch_size}; expected "
                "drop_last=False, or a dataset and train_samples that are a "
                f"multiple of {job.batch_size * job.partitions}")

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


class Optimizer(_Training):
    """Stands where a loop has its torch optimizer. The update itself is made by
    the cluster, as the job's `optimizer` says.

    Not thread-safe: call from the thread that trains.
    """

    def __init__(self, model: torch.nn.Module, *, overlap: bool = False,
                 worker: model_process.Worker | None = None):
        """`model` is as the job describes it. Its tensors become views of the
        worker's memory, so the weights that it had are gone. Raises MisuseError
        where it is another model, or one that writes into its weights (max_norm
        of an Embedding).

        `overlap`: gradients begin to travel while backward() runs, which must
        then be called once for a mini-batch, and nothing may change a gradient
        after it (clipping, a GradScaler). `worker`: the one that started this
        process, unless somebody has it already."""
        _check_max_norm(model)
        super().__init__(model, worker)
        self.copied_total = 0  # Gradients that were not in their place.
        # On a GPU cuDNN wants each one's in one piece and an order of its own.
        self._of_rnns = {at for at, one in enumerate(self._tensors)
                         if isinstance(one.module, torch.nn.RNNBase)}
        # Floats before each tensor and, last, before the end.
        self._offsets = [tensor.offset for tensor in self.description.tensors]
        self._offsets.append(self.description.parameters)
        # Of tensors: those that have their gradient, the first of those that
        # follow without a gap up to the end, and of those that are in place.
        self._is_computed = [False] * len(self._tensors)
        self._computed_from = self._complete_from = len(self._tensors)
        self._announced_from = self.description.parameters  # Floats.
        self._is_cancelled = False  # As backward() has found; see step().
        self._computing = threading.Lock()  # Held while one is taken.
        self._hooks = self._hook_gradients() if overlap else []

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Sets the gradients to zero in their place. With `set_to_none` they
        are None, as in torch, and those that backward() then makes are copied
        to their place by step()."""
        # After step() the worker reads them; each mini-batch begins with zeros.
        if not self._awaits_step:
            return
        if not set_to_none:
            self._zero()
            return
        for _, parameter in self._parameters:
            parameter.grad = None

    def _zero(self) -> None:
        self._memory.zero_gradient()
        places = self._memory.gradient
        for at, parameter in self._parameters:
            if not self._fits(at, parameter):
                parameter.grad = None
            elif not _is_at(places[at], parameter.grad):
                # The place itself would be moved away by model.to(...).
                parameter.grad = places[at].detach()

    def _fits(self, at: int, parameter: torch.nn.Parameter) -> bool:
        """Whether it can be a view of the memory, as it is now."""
        return (parameter.dtype == torch.float32 and
                parameter.device == self._memory.device and
                (self._memory.is_the_workers or at not in self._of_rnns))

    def _place(self) -> None:
        weights = self._memory.weights
        # The model writes into these.
        copied, to = list(self._statistics), self._present_statistics(
            self._statistics)
        for at, parameter in self._parameters:
            if self._fits(at, parameter):
                parameter.data = weights[at]
            else:
                copied.append(at)
                to.append(parameter.data)
        _copy([weights[at] for at in copied], to)

    def _begin(self) -> None:
        batches = len(self._task.batches)
        if batches != 1:
            raise MisuseError(f"a task has {batches} mini-batches, expected 1: "
                              "the job's sync.local_steps is for LocalSteps")
        self._zero()
        self._is_computed = [one.is_statistic for one in self._tensors]
        self._computed_from = self._complete_from = len(self._tensors)
        self._announced_from = self.description.parameters
        self._is_cancelled = False

    def _collect_statistics(self) -> None:
        self._have_statistics_from(0)

    def _step(self, loss: float) -> None:
        if self._is_cancelled:
            raise model_process.Cancelled
        self._have_gradients_from(0)
        self._hand_over_gradients()
        self._push(loss)

    def _hand_over_gradients(self) -> None:
        """While the worker reads those in its memory, the program has none that
        it could write into, as by model.zero_grad(). _begin() puts them back."""
        if not self._memory.is_the_workers:  # It reads a copy.
            return
        places = self._memory.gradient
        for at, parameter in self._parameters:
            if _is_at(places[at], parameter.grad):
                parameter.grad = None

    def _have_statistics_from(self, first: int) -> None:
        """Those from this tensor on are in their places."""
        missing = [at for at in self._statistics
                   if first <= at < self._complete_from]
        places = [self._memory.gradient[at] for at in missing]
        values = self._present_statistics(missing)
        for at, value, place in zip(missing, values, places):
            if value.shape != place.shape:
                raise MisuseError(
                    f"{self._tensors[at].name} is {tuple(value.shape)} after a "
                    f"mini-batch, expected {tuple(place.shape)} as before it")
        _copy(values, places)

    def _have_gradients_from(self, first: int) -> None:
        """The same of the parameters' gradients."""
        for at, parameter in self._parameters:
            if first <= at < self._complete_from:
                self._collect(at, parameter.grad)

    def _collect(self, at: int, value: torch.Tensor | None) -> None:
        """Has a parameter's gradient, which is this, in its place."""
        one, place = self._tensors[at], self._memory.gradient[at]
        if value is None:  # The loss does not depend on it.
            place.zero_()
            self._warn_once(
                one.name, f"{one.name} has no gradient in mini-batch "
                f"{self._batch}, which counts as one of zeros: momentum and "
                "weight decay go on, where torch leaves the parameter as it is "
                "(said once for each parameter)", callers=4)
            return
        if _is_at(place, value):
            return
        if value.shape != place.shape or value.dtype != one.tensor.dtype:
            raise MisuseError(
                f"the gradient of {one.name} is {value.dtype} "
                f"{tuple(value.shape)}, expected {one.tensor.dtype} "
                f"{tuple(place.shape)}")
        with torch.no_grad():  # create_graph=True makes one with a graph.
            place.copy_(value if value.layout == torch.strided else
                        value.to_dense())
        self.copied_total += 1

    def _hook_gradients(self) -> list[Any]:
        """Has _on_gradient called as soon as a tensor has its gradient. What is
        returned is to be kept."""
        kept = []
        for at, parameter in self._parameters:
            def computed(*_: Any, at: int = at) -> None:
                self._on_gradient(at)
            if hasattr(parameter, "register_post_accumulate_grad_hook"):
                parameter.register_post_accumulate_grad_hook(computed)
                continue
            # Before PyTorch 2.1: the graph's node that adds to the gradient,
            # which lives as long as somebody has it.
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            node.register_hook(computed)
            kept.append(node)
        return kept

    def _on_gradient(self, at: int) -> None:
        if not self._awaits_step:  # backward() of something else.
            return
        # backward() has a thread for each device.
        with self._computing:
            self._take_gradient(at)

    def _take_gradient(self, at: int) -> None:
        if self._is_computed[at]:
            raise MisuseError(
                f"{self._tensors[at].name} got its gradient twice in a "
                "mini-batch; with overlap=True one backward() was expected")
        self._is_computed[at] = True
        first = self._computed_from
        while first > 0 and self._is_computed[first - 1]:
            first -= 1
        self._computed_from = first
        if self._is_cancelled:
            return
        offset = self._offsets[first]
        if (self._memory.final_from - offset) * 4 >= _WORTH_SENDING:
            self._have_statistics_from(first)
            self._have_gradients_from(first)
            self._complete_from = first
            self._memory.send_from(offset)
        arrived_from = self._memory.look()
        if arrived_from < self._announced_from:
            self._announced_from = arrived_from
            try:
                self._task.final_from(arrived_from)
            except model_process.Cancelled:
                self._is_cancelled = True
                # In a loop of the program's own nobody would catch it.
                if self._runs:
                    raise


class LocalSteps(_Training):
    """A torch optimizer of the program's own makes the job's
    `sync.local_steps` steps from the cluster's weights. What is pushed is the
    start minus the end; the job's `optimizer` applies it as a gradient:
    learning rate 1 and plain SGD take the mean of the workers' ends (McMahan et
    al. 2017, https://arxiv.org/abs/1602.05629), Nesterov momentum is DiLoCo
    (Douillard et al. 2023, https://arxiv.org/abs/2311.08105).

    The state of `inner`, its moments for instance, stays in this process from
    task to task, so the bits of a run depend on who computed what. With
    `fresh_state` each task begins with the one that `inner` had at first, for
    most none, and SYNC keeps its bits. So does the task after one whose weights
    did not stay finite: NaN would remain in the moments.

    Not thread-safe: call from the thread that trains.
    """

    def __init__(self, model: torch.nn.Module, inner: torch.optim.Optimizer, *,
                 fresh_state: bool = False, scaler: Any = None,
                 worker: model_process.Worker | None = None):
        """`inner` has parameters of `model`, which is as the job describes it.
        `scaler`: the GradScaler of a loop in float16; step() calls its step and
        its update. Raises MisuseError where it is another model."""
        super().__init__(model, worker)
        self._inner = inner
        # Of each parameter that has one before the first step.
        self._first_state = {parameter: copy.deepcopy(state)
                             for parameter, state in inner.state.items()}
        self._fresh_state = fresh_state
        self._scaler = scaler
        self._steps = 0  # Of the present task.
        self._loss = 0.0  # Sum over the samples of the present task.

    def zero_grad(self, set_to_none: bool = True) -> None:
        """That of the inner optimizer."""
        self._inner.zero_grad(set_to_none)

    @torch.no_grad()
    def _place(self) -> None:
        # These are the weights at which the task before was left, or ended.
        if not all(parameter.isfinite().all()
                   for _, parameter in self._parameters):
            self._reset_inner()
        for one, values in zip(self._tensors, self._memory.weights):
            one.tensor.copy_(values)

    def _begin(self) -> None:
        self._steps = 0
        self._loss = 0.0
        if self._fresh_state:
            self._reset_inner()

    def _reset_inner(self) -> None:
        """Most begin without a state, but Adagrad with sums."""
        self._inner.state.clear()
        for parameter, state in self._first_state.items():
            self._inner.state[parameter] = copy.deepcopy(state)

    @torch.no_grad()
    def _collect_statistics(self) -> None:
        batches = len(self._task.batches)
        for one, place in zip(self._tensors, self._memory.gradient):
            if one.is_statistic:  # The mean over the mini-batches.
                share = one.tensor.to(place.device).float() / batches
                place.copy_(share if self._steps == 0 else place + share)

    @torch.no_grad()
    def _step(self, loss: float) -> None:
        if self._scaler is None:
            self._inner.step()
        else:
            self._scaler.step(self._inner)
            self._scaler.update()
        batches = self._task.batches
        self._loss += loss * len(batches[self._steps])
        self._steps += 1
        if self._steps < len(batches):
            self._task.check()
            return
        for one, start, place in zip(self._tensors, self._memory.weights,
                                     self._memory.gradient):
            if not one.is_statistic:
                # The start as the model has it, rounded to its type.
                torch.sub(start.to(one.tensor.dtype).float(),
                          one.tensor.to(place.device).float(), out=place)
        self._push(self._loss / self._task.samples)
