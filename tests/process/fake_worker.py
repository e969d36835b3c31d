"""A worker that only hands out tasks, or an evaluator that only asks for
evaluations, for PyTorch loops in the test's own process."""

import array
import sys

import harness

sys.path.insert(0, str(harness.ROOT / "python"))
# pylint: disable=wrong-import-position
from sluice import model_process

if "torch" in harness.SUITES:
    from torch import nn

    import sluice.torch
    from sluice.torch_job import tensors_of


class FakeAsked:
    """The check with the number `cancelled_at`, from 1, finds it cancelled."""

    def __init__(self, number, cancelled_at):
        self.weights_buffer = number % 2
        self.over = False
        self.checks = 0
        self.logged = {}
        self._cancelled_at = cancelled_at

    def check(self):
        self.checks += 1
        if self.checks == self._cancelled_at:
            raise model_process.Cancelled

    def log(self, values):
        self.logged |= values

    def give_up(self):
        self.over = True


class FakeTask(FakeAsked):
    """Task `number`, of samples 0 and 1 unless `batches` says otherwise."""

    def __init__(self, number, cancelled_at=None, batches=((0, 1),)):
        super().__init__(number, cancelled_at)
        self.first_batch = number
        self.gradient_buffer = 0
        self.batches = batches
        self.samples = sum(len(batch) for batch in batches)
        self.next_first_batch = number + 1
        self.next_batches = batches
        self.final = []  # The offsets.
        self.loss = None

    def final_from(self, offset):
        self.final.append(offset)
        self.check()

    def done(self, loss):
        self.check()
        self.loss = loss
        self.over = True


class FakeEvaluation(FakeAsked):
    """Of version `number`."""

    def __init__(self, number, cancelled_at=None):
        super().__init__(number, cancelled_at)
        self.measured = None

    def done(self, *measured):
        self.measured = measured
        self.over = True


class FakeWorker:
    """Has two vectors of weights: 0, 1, 2, ... and 0, 2, 4, ..., in eighths."""

    def __init__(self, model, tasks, role="worker"):
        tensors, offset = [], 0
        for one in tensors_of(model):
            tensors.append(model_process.Tensor(
                one.name, tuple(one.tensor.shape), offset, one.kind))
            offset += one.tensor.numel()
        self.description = model_process.Description(
            job="fake", seed=1, worker=0, threads=1, batch_size=2,
            train_samples=2, test_samples=0, parameters=offset,
            tensors=tuple(tensors), role=role)
        self.weights = [
            memoryview(array.array("f", [i * step / 8 for i in range(offset)]))
            for step in (1, 2)]
        self.gradients = [memoryview(array.array("f", [7] * offset))]
        self._tasks = tasks

    def tasks(self):
        assert self.description.role == "worker"
        yield from self._tasks

    def evaluations(self):
        assert self.description.role == "evaluator"
        yield from self._tasks


SAMPLES = [(i, i) for i in (1.0, 2.0)]


def model_and_optimizer(*tasks, model=None, **options):
    """A linear model, y = w x + b, unless another one is given."""
    model = model or nn.Linear(1, 1)
    worker = FakeWorker(model, tasks)
    opt = sluice.torch.Optimizer(model, worker=worker, **options)
    return model, opt, worker


def model_and_evaluator(*evaluations, model=None):
    """The same in the evaluator's process."""
    model = model or nn.Linear(1, 1)
    worker = FakeWorker(model, evaluations, role="evaluator")
    return model, sluice.torch.Optimizer(model, worker=worker)


def loss_of(model, batch):
    x, y = batch
    return nn.functional.mse_loss(model(x.float().view(-1, 1)),
                                  y.float().view(-1, 1))
