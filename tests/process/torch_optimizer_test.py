#!/usr/bin/python3 -B
"""sluice.torch.Optimizer, with a worker that only hands out tasks."""

import array
import importlib.util
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "python"))
# pylint: disable=wrong-import-position
from sluice import model_process

TORCH = importlib.util.find_spec("torch") is not None
if TORCH:
    import torch
    from torch import nn

    import sluice.torch
    from sluice.torch_job import tensors_of


class FakeTask:
    """Task `number`, of samples 0 and 1; the check with the number
    `cancelled_at`, from 1, finds it cancelled."""

    def __init__(self, number, cancelled_at=None):
        self.first_batch = number
        self.weights_buffer = number % 2
        self.gradient_buffer = 0
        self.batches = [[0, 1]]
        self.over = False
        self.loss = None
        self.checks = 0
        self._cancelled_at = cancelled_at

    def check(self):
        self.checks += 1
        if self.checks == self._cancelled_at:
            raise model_process.Cancelled

    def done(self, loss):
        self.check()
        self.loss = loss
        self.over = True

    def give_up(self):
        self.over = True


class FakeWorker:
    """Has two vectors of weights: 0, 1, 2, ... and 0, 2, 4, ..., in eighths."""

    def __init__(self, model, tasks):
        tensors, offset = [], 0
        for one in tensors_of(model):
            tensors.append(model_process.Tensor(
                one.name, tuple(one.tensor.shape), offset, one.kind))
            offset += one.tensor.numel()
        self.description = model_process.Description(
            job="fake", seed=1, worker=0, threads=1, batch_size=2,
            train_samples=2, test_samples=0, parameters=offset,
            tensors=tuple(tensors))
        self.weights = [
            memoryview(array.array("f", [i * step / 8 for i in range(offset)]))
            for step in (1, 2)]
        self.gradients = [memoryview(array.array("f", [7] * offset))]
        self._tasks = tasks

    def tasks(self):
        yield from self._tasks


SAMPLES = [(i, i) for i in (1.0, 2.0)]


def model_and_optimizer(*tasks, model=None):
    """A linear model, y = w x + b, unless another one is given."""
    model = model or nn.Linear(1, 1)
    worker = FakeWorker(model, tasks)
    return model, sluice.torch.Optimizer(model, worker), worker


def loss_of(model, batch):
    x, y = batch
    return nn.functional.mse_loss(model(x.float().view(-1, 1)),
                                  y.float().view(-1, 1))


@unittest.skipUnless(TORCH, "python3-torch is not installed")
class TorchOptimizerTest(unittest.TestCase):

    def test_parameters_and_gradients_are_the_workers_memory(self):
        tasks = [FakeTask(0), FakeTask(1)]
        model, opt, worker = model_and_optimizer(*tasks)
        for batch, bias in zip(opt.batches(SAMPLES), [1 / 8, 2 / 8]):
            self.assertEqual(model.weight.item(), 0)
            self.assertEqual(model.bias.item(), bias)
            opt.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            opt.step(loss)
            # d/dw and d/db of the mean of (b - 1)^2 and (b - 2)^2, at w = 0.
            errors = [bias - 1, bias - 2]
            self.assertAlmostEqual(worker.gradients[0][0],
                                   errors[0] + 2 * errors[1], 6)
            self.assertAlmostEqual(worker.gradients[0][1], sum(errors), 6)
        self.assertEqual(opt.copied_total, 0)
        self.assertAlmostEqual(tasks[0].loss, ((7 / 8)**2 + (15 / 8)**2) / 2, 6)

    def test_a_gradient_elsewhere_is_copied_and_counted(self):
        model, opt, worker = model_and_optimizer(FakeTask(0))
        for batch in opt.batches(SAMPLES):
            model.zero_grad(set_to_none=True)
            loss = loss_of(model, batch)
            loss.backward()
            opt.step(loss)
        self.assertEqual(opt.copied_total, 2)
        self.assertAlmostEqual(worker.gradients[0][1], -7 / 8 - 15 / 8, 6)

    def test_what_the_loss_does_not_depend_on_has_gradient_zero(self):
        model, opt, worker = model_and_optimizer(FakeTask(0))
        for x, _ in opt.batches(SAMPLES):
            model.zero_grad(set_to_none=True)
            loss = (x.float() * model.weight).sum()
            loss.backward()
            opt.step(loss)
        self.assertEqual(list(worker.gradients[0]), [3, 0])

    def test_a_statistic_is_the_mini_batchs_own(self):
        model, opt, worker = model_and_optimizer(
            FakeTask(0), model=nn.BatchNorm1d(1, momentum=0.3))
        names = [t.name for t in worker.description.tensors]
        self.assertEqual(names,
                         ["weight", "bias", "running_mean", "running_var"])
        for batch in opt.batches(SAMPLES):
            # The weights' own, until the model has seen the samples.
            self.assertEqual(model.running_mean.item(), 2 / 8)
            loss = loss_of(model, batch)
            loss.backward()
            opt.step(loss)
        self.assertEqual(list(worker.gradients[0])[2:], [1.5, 0.5])

    def test_a_cancelled_task_delivers_nothing(self):
        tasks = [FakeTask(0, cancelled_at=1), FakeTask(1)]
        model, opt, _ = model_and_optimizer(*tasks)
        for batch in opt.batches(SAMPLES):
            opt.step(loss_of(model, batch))
        self.assertIsNone(tasks[0].loss)
        self.assertIsNotNone(tasks[1].loss)

    def test_run_leaves_a_cancelled_task_at_the_next_module(self):
        called = []

        class Noting(nn.Linear):
            def forward(self, x):
                called.append(self)
                return super().forward(x)

        model = nn.Sequential(Noting(1, 1), Noting(1, 1), Noting(1, 1))
        # Checks: of the Sequential, of the first layer, of the second.
        tasks = [FakeTask(0, cancelled_at=3), FakeTask(1)]
        _, opt, _ = model_and_optimizer(*tasks, model=model)
        opt.run(lambda batch: loss_of(model, batch), SAMPLES)
        self.assertEqual(called, [model[0], *model])
        self.assertIsNone(tasks[0].loss)
        self.assertIsNotNone(tasks[1].loss)

    def test_random_draws_are_those_of_the_mini_batch(self):
        def draws(*tasks):
            _, opt, _ = model_and_optimizer(*tasks)
            found = []
            for _ in opt.batches(SAMPLES):
                found.append(torch.rand(1).item())
                opt.step(0.0)
            return found
        one, two = draws(FakeTask(1), FakeTask(2))
        self.assertNotEqual(one, two)
        self.assertEqual(draws(FakeTask(2), FakeTask(1)), [two, one])

    def test_another_model_is_refused(self):
        worker = FakeWorker(nn.Linear(1, 1), [])
        for other, said in [
                (nn.Linear(2, 1), r"the model has \('weight', \(1, 2\), 'WEIGHT'"
                 r"\), expected \('weight', \(1, 1\), 'WEIGHT'\)"),
                (nn.Linear(1, 1, bias=False),
                 "the model has 1 tensors, expected 2"),
                (nn.Linear(1, 1).double(), "")]:
            with self.assertRaisesRegex((sluice.torch.MisuseError, ValueError),
                                        said or "float64 on cpu, expected"):
                sluice.torch.Optimizer(other, worker)

    def test_step_is_called_once_for_each_mini_batch(self):
        _, opt, _ = model_and_optimizer(FakeTask(0), FakeTask(1))
        with self.assertRaisesRegex(sluice.torch.MisuseError,
                                    "not called for mini-batch 0"):
            for _ in opt.batches(SAMPLES):
                pass
        _, opt, _ = model_and_optimizer(FakeTask(0))
        with self.assertRaisesRegex(sluice.torch.MisuseError, "called twice"):
            for _ in opt.batches(SAMPLES):
                opt.step(0.0)
                opt.step(0.0)


if __name__ == "__main__":
    harness.main()
