#!/usr/bin/python3 -B
"""sluice.torch's LocalSteps, with a worker that only hands out tasks, or an
evaluator that only asks for evaluations."""

import math
import unittest
import warnings

import harness
from fake_worker import (SAMPLES, FakeEvaluation, FakeTask, FakeWorker, loss_of,
                         model_and_optimizer)

if "torch" in harness.SUITES:
    import torch
    from torch import nn

    import sluice.torch


@harness.suite("torch")
class LocalStepsTest(unittest.TestCase):

    def train(self, *tasks, model=None, samples=SAMPLES, fresh_state=False,
              inner=None):
        """Adam with the rate 1/8, unless `inner` is another, moves a weight by
        1/8 in its first step."""
        model = model or nn.Linear(1, 1)
        worker = FakeWorker(model, tasks)
        inner = inner(model.parameters()) if inner else torch.optim.Adam(
            model.parameters(), lr=1 / 8)
        opt = sluice.torch.LocalSteps(model, inner, worker=worker,
                                      fresh_state=fresh_state)
        moved = []
        for batch in opt.batches(samples):
            opt.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            opt.step(loss)
            if opt._task.over:
                moved.append(list(worker.gradients[0]))
        return moved

    def test_what_is_pushed_is_the_start_minus_the_end(self):
        task = FakeTask(0, batches=[[0], [1, 0]])
        [moved] = self.train(task)
        # From w = 0 and b = 1/8 both rise.
        self.assertAlmostEqual(moved[0], -2 / 8, 2)
        self.assertAlmostEqual(moved[1], -2 / 8, 2)
        w = b = 1 / 8  # After the first step, and b had 1/8 before.
        b += 1 / 8
        losses = [(7 / 8)**2, (w + b - 1)**2, (2 * w + b - 2)**2]
        self.assertAlmostEqual(task.loss, sum(losses) / 3, 5)

    def test_each_task_begins_at_the_clusters_weights(self):
        first, second = self.train(FakeTask(0), FakeTask(2), fresh_state=True)
        self.assertEqual(first, second)

    def test_the_next_task_is_expected_whatever_its_mini_batches_are(self):
        tasks = [FakeTask(n, batches=((0,), (1,))) for n in (0, 1, 2)]
        model = nn.Linear(1, 1)
        opt = sluice.torch.LocalSteps(
            model, torch.optim.SGD(model.parameters(), lr=1),
            worker=FakeWorker(model, tasks))
        for _ in opt.batches(SAMPLES):
            opt.step(0.0)
        self.assertEqual(opt.loaded_early_total, 1)

    def test_a_version_is_measured_at_the_clusters_weights(self):
        model, evaluation = nn.Linear(1, 1), FakeEvaluation(1)
        opt = sluice.torch.LocalSteps(
            model, torch.optim.SGD(model.parameters(), lr=1),
            worker=FakeWorker(model, [evaluation], role="evaluator"))
        opt.evaluate(lambda: model.bias.item())
        self.assertEqual(evaluation.measured, (2 / 8,))

    def test_the_inner_optimizer_keeps_its_state_unless_it_is_to_be_fresh(self):
        first, second = self.train(FakeTask(0), FakeTask(2))
        self.assertNotEqual(first, second)

    def test_a_fresh_state_is_what_the_inner_optimizer_began_with(self):
        def adagrad(parameters):
            return torch.optim.Adagrad(parameters, lr=1 / 8,
                                       initial_accumulator_value=0.5)
        first, second = self.train(FakeTask(0), FakeTask(2), fresh_state=True,
                                   inner=adagrad)
        self.assertEqual(first, second)
        # The loss falls by 4.625 for each w at its start, and by 2.75 for b.
        for found, slope in zip(first, (4.625, 2.75)):
            self.assertAlmostEqual(found, -slope / 8 / (0.5 + slope**2)**0.5, 6)

    def test_a_mini_batch_that_is_not_finite_spoils_no_later_task(self):
        samples = [(1.0, 1.0), (float("nan"), 1.0)]
        [expected] = self.train(FakeTask(6, batches=[[0]]), samples=samples)
        for cancelled_at in None, 1:
            with self.subTest(cancelled_at=cancelled_at):
                bad = FakeTask(2, cancelled_at, batches=[[1], [0]])
                _, spoilt, after = self.train(
                    FakeTask(0, batches=[[0]]), bad,
                    FakeTask(6, batches=[[0]]), samples=samples)
                if cancelled_at is None:
                    self.assertFalse(any(map(math.isfinite, spoilt)))
                self.assertEqual(after, expected)

    def test_a_gradient_that_overflows_is_left_out_as_the_scaler_says(self):
        for scaler in self.scalers():
            model = nn.Linear(1, 1)
            inner = torch.optim.SGD(model.parameters(), lr=1)
            worker = FakeWorker(model, [FakeTask(n) for n in range(3)])
            opt = sluice.torch.LocalSteps(model, inner, scaler=scaler,
                                          worker=worker)
            moved = []
            for batch in opt.batches(SAMPLES):
                opt.zero_grad()
                loss = loss_of(model, batch)
                scaler.scale(loss).backward()
                scaler.unscale_(inner)
                opt.step(loss)
                moved.append(list(worker.gradients[0]))
            self.assertEqual(moved[0], [0, 0])
            self.assertEqual(moved[2], [-7 / 8 - 2 * 15 / 8, -7 / 8 - 15 / 8])

    def scalers(self):
        """One that overflows at first: its like, and torch's where that can be
        had without a GPU (from PyTorch 2.3 on)."""
        class Scaler:
            def __init__(self):
                self.factor = 2.0**127
            def scale(self, loss):
                return loss * self.factor
            def unscale_(self, inner):
                self.grads = [p.grad for group in inner.param_groups
                              for p in group["params"]]
                for grad in self.grads:
                    grad.div_(self.factor)
            def step(self, inner):
                if all(grad.isfinite().all() for grad in self.grads):
                    inner.step()
            def update(self):
                self.factor /= 2**8
        yield Scaler()
        if hasattr(torch.amp, "GradScaler"):
            yield torch.amp.GradScaler("cpu", init_scale=2.0**127,
                                       backoff_factor=2.0**-8)

    def test_a_rate_by_the_epoch_is_that_of_the_mini_batch(self):
        model = nn.Linear(1, 1)
        inner = torch.optim.SGD(model.parameters(), lr=1)
        opt = sluice.torch.LocalSteps(
            model, inner, worker=FakeWorker(model, [FakeTask(n)
                                                    for n in (7, 9, 12)]))
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            inner, lambda _: opt.epoch / 16)
        rates = []
        for _ in opt.batches(SAMPLES):
            with warnings.catch_warnings(action="ignore"):  # Of its place.
                scheduler.step()
            rates.append(inner.param_groups[0]["lr"])
            opt.step(0.0)
        self.assertEqual(rates, [7 / 16, 9 / 16, 12 / 16])

    def test_a_statistic_is_the_mean_over_the_mini_batches(self):
        [moved] = self.train(FakeTask(0, batches=[[0, 1], [1, 1]]),
                             model=nn.BatchNorm1d(1))
        self.assertEqual(moved[2:], [(1.5 + 2) / 2, (0.5 + 0) / 2])

    def test_a_cancelled_task_ends_at_its_next_step(self):
        tasks = [FakeTask(0, cancelled_at=1, batches=[[0], [1], [0]]),
                 FakeTask(1)]
        self.train(*tasks)
        self.assertEqual(tasks[0].checks, 1)
        self.assertIsNone(tasks[0].loss)
        self.assertIsNotNone(tasks[1].loss)

    def test_local_steps_are_not_for_an_optimizer(self):
        _, opt, _ = model_and_optimizer(FakeTask(0, batches=[[0], [1]]))
        with self.assertRaisesRegex(
                sluice.torch.MisuseError, "a task has 2 mini-batches, expected "
                "1: the job's sync.local_steps is for LocalSteps"):
            next(opt.batches(SAMPLES))


if __name__ == "__main__":
    harness.main()
