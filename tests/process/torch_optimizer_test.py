#!/usr/bin/python3 -B
"""sluice.torch's Optimizer, with a worker that only hands out tasks, or an
evaluator that only asks for evaluations."""

import threading
import unittest
import warnings

import harness
from fake_worker import (SAMPLES, FakeEvaluation, FakeTask, FakeWorker, loss_of,
                         model_and_evaluator, model_and_optimizer)

if "torch" in harness.SUITES:
    import torch
    from torch import nn

    import sluice.torch
    from sluice.torch_job import fixed_digest, fixed_digests, tensors_of


def frozen_bias():
    model = nn.Linear(1, 1)
    nn.init.ones_(model.bias.requires_grad_(False))
    return model


@harness.suite("torch")
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

    def test_gradients_are_zeroed_in_place_unless_they_are_to_be_none(self):
        model, opt, worker = model_and_optimizer(FakeTask(0), FakeTask(0))
        kept = []
        for batch in opt.batches(SAMPLES):
            x, _ = batch
            (x.float() * model.weight).sum().backward()
            kept.append(model.weight.grad)
            opt.zero_grad(set_to_none=True)
            self.assertIsNone(model.weight.grad)
            loss_of(model, batch).backward()
            kept.append(model.weight.grad)
            self.assertEqual(kept[-2], 3)
            self.assertNotEqual(kept[-1], 3)
            opt.step(0.0)
            self.assertEqual(worker.gradients[0][0], kept[-1])
        self.assertEqual(kept[1], kept[3])  # Made by backward(), so it stays.
        self.assertEqual(opt.copied_total, 4)
        model, opt, _ = model_and_optimizer(FakeTask(0))
        for x, _ in opt.batches(SAMPLES):
            (x.float() * model.weight).sum().backward()
            kept = model.weight.grad
            opt.zero_grad()
            self.assertIs(model.weight.grad, kept)
            self.assertEqual(kept, 0)
            opt.step(0.0)

    def test_a_gradient_may_have_a_graph(self):
        for overlap in False, True:
            model, opt, worker = model_and_optimizer(FakeTask(0), FakeTask(1),
                                                     overlap=overlap)
            for batch, bias in zip(opt.batches(SAMPLES), [1 / 8, 2 / 8]):
                opt.zero_grad()
                loss = loss_of(model, batch)
                with warnings.catch_warnings(action="ignore"):  # Of a cycle.
                    loss.backward(create_graph=True)
                self.assertTrue(model.bias.grad.requires_grad)
                opt.step(loss)
                self.assertAlmostEqual(worker.gradients[0][1], 2 * bias - 3, 6)

    def test_a_gradient_may_be_sparse(self):
        for overlap in False, True:
            model, opt, worker = model_and_optimizer(
                FakeTask(0), model=nn.EmbeddingBag(3, 2, sparse=True),
                overlap=overlap)
            for _ in opt.batches(SAMPLES):
                model.zero_grad(set_to_none=True)
                model(torch.tensor([[0, 2, 2]])).sum().backward()
                self.assertTrue(model.weight.grad.is_sparse)
                opt.step(0.0)
            self.assertEqual(opt.copied_total, 1)
            for found, expected in zip(worker.gradients[0],
                                       [1 / 3, 1 / 3, 0, 0, 2 / 3, 2 / 3]):
                self.assertAlmostEqual(found, expected, 6)

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

    def test_a_statistic_is_the_mean_over_the_calls_of_a_mini_batch(self):
        model, opt, worker = model_and_optimizer(
            FakeTask(0), FakeTask(1), model=nn.BatchNorm1d(1))
        for x, _ in opt.batches(SAMPLES):
            x = x.float().view(-1, 1)
            for moved in x, x + 3, 3 * x:
                model(moved)
            model.eval()(x + 100)
            model.train()
            opt.step(0.0)
            for found, expected in zip(list(worker.gradients[0])[2:],
                                       [(1.5 + 4.5 + 4.5) / 3,
                                        (0.5 + 0.5 + 4.5) / 3]):
                self.assertAlmostEqual(found, expected, 5)

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

    def test_the_epoch_is_that_of_the_mini_batch(self):
        _, opt, _ = model_and_optimizer(FakeTask(0), FakeTask(3))
        epochs = []
        for _ in opt.batches(SAMPLES):
            epochs.append(opt.epoch)
            opt.step(0.0)
        self.assertEqual(epochs, [0, 3])

    def test_an_evaluator_has_no_mini_batches_and_measures_versions(self):
        evaluations = [FakeEvaluation(0), FakeEvaluation(1)]
        model, opt = model_and_evaluator(*evaluations)
        # Nor is the training data looked at.
        self.assertEqual(list(opt.batches([])), [])
        opt.run(lambda batch: self.fail("asked to train"), [])
        opt.evaluate(lambda: model.bias.item())
        self.assertEqual([e.measured for e in evaluations],
                         [(1 / 8,), (2 / 8,)])

    def test_a_model_is_measured_in_eval_mode_at_its_statistics(self):
        evaluation = FakeEvaluation(0)
        model, opt = model_and_evaluator(
            evaluation, model=nn.Sequential(nn.BatchNorm1d(1)))
        model.train()

        def measure():
            self.assertFalse(model[0].training)
            self.assertFalse(torch.is_grad_enabled())
            # Weight 0, bias 1/8, mean 2/8, variance 3/8.
            return model[0].running_mean.item(), model(torch.ones(1, 1)).item()

        opt.evaluate(measure)
        self.assertEqual(evaluation.measured, (2 / 8, 1 / 8))

    def test_an_evaluator_says_the_same_of_what_no_job_has_as_a_worker(self):
        model, opt, worker = model_and_optimizer(model=frozen_bias())
        list(opt.batches(SAMPLES))
        evaluator = FakeWorker(frozen_bias(), [], role="evaluator")
        sluice.torch.Optimizer(frozen_bias(), worker=evaluator).evaluate(
            lambda: 0.5)
        self.assertIn("sha256", worker.own_input)
        self.assertEqual(evaluator.own_input, worker.own_input)

    def test_a_cancelled_evaluation_is_left_at_the_next_module(self):
        called = []
        evaluations = [FakeEvaluation(0, cancelled_at=2), FakeEvaluation(1)]
        model, opt = model_and_evaluator(*evaluations)

        def measure():
            for _ in range(3):
                model(torch.ones(1, 1))
                called.append(len(called))
            return 0.5

        opt.evaluate(measure)
        self.assertEqual(len(called), 1 + 3)
        self.assertEqual([(e.over, e.measured) for e in evaluations],
                         [(True, None), (True, (0.5,))])
        model(torch.ones(1, 1))  # Nobody is asked any more.
        self.assertEqual(evaluations[1].checks, 3)

    def test_what_is_logged_goes_with_the_next_step(self):
        tasks = FakeTask(0), FakeTask(1), FakeTask(2)
        _, opt, _ = model_and_optimizer(*tasks)
        for i, _ in enumerate(opt.batches(SAMPLES)):
            if i < 2:
                opt.log({"norm": torch.tensor(i + 0.5)})
            opt.step(0.0)
            opt.log({f"after/{i}": i})
        self.assertEqual([task.logged for task in tasks],
                         [{"norm": 0.5}, {"after/0": 0, "norm": 1.5},
                          {"after/1": 1}])

    def test_what_is_logged_while_measuring_is_the_evaluations(self):
        evaluations = [FakeEvaluation(0), FakeEvaluation(1)]
        model, opt = model_and_evaluator(*evaluations)

        def measure():
            opt.log({"bias": model.bias.item()})
            return 0.5

        opt.evaluate(measure)
        self.assertEqual([e.logged for e in evaluations],
                         [{"bias": 1 / 8}, {"bias": 2 / 8}])

    def test_what_a_mini_batch_logged_is_given_up_with_it(self):
        # Checks: of the model, which is left there.
        tasks = FakeTask(0, cancelled_at=1), FakeTask(1)
        model, opt, _ = model_and_optimizer(*tasks)
        is_hard = iter([True, False])

        def compute(batch):
            if next(is_hard):
                opt.log({"hard": 1})
            return loss_of(model, batch)

        opt.run(compute, SAMPLES)
        self.assertEqual([(task.loss is None, task.logged) for task in tasks],
                         [(True, {}), (False, {})])

    def test_what_an_evaluation_logged_is_given_up_with_it(self):
        evaluations = [FakeEvaluation(0, cancelled_at=1), FakeEvaluation(1)]
        model, opt = model_and_evaluator(*evaluations)
        is_hard = iter([True, False])

        def measure():
            if next(is_hard):
                opt.log({"hard": 1})
            return model(torch.ones(1, 1)).item()

        opt.evaluate(measure)
        self.assertEqual([(e.measured is None, e.logged) for e in evaluations],
                         [(True, {}), (False, {})])

    def test_what_is_logged_has_a_name_and_a_number(self):
        _, opt, _ = model_and_optimizer()
        for name in "", "a b", "x" * 65, "\u00e4":
            with self.assertRaisesRegex(sluice.torch.MisuseError,
                                        "expected a name of 1 to 64 letters"):
                opt.log({name: 1})
        with self.assertRaises(ValueError):
            opt.log({"a": "many"})

    def test_a_worker_measures_nothing(self):
        _, opt, _ = model_and_optimizer()
        opt.evaluate(lambda: self.fail("asked to measure"))

    def test_another_model_is_refused(self):
        worker = FakeWorker(nn.Linear(1, 1), [])
        for other, said in [
                (nn.Linear(2, 1), r"the model has \('weight', \(1, 2\), 'WEIGHT'"
                 r"\), expected \('weight', \(1, 1\), 'WEIGHT'\)"),
                (nn.Linear(1, 1, bias=False),
                 "the model has 1 tensors, expected 2"),
                (nn.Linear(1, 1, dtype=torch.complex64),
                 "weight is torch.complex64 on cpu, expected one of "
                 "torch.float32, torch.float64, torch.float16, torch.bfloat16, "
                 "in memory"),
                (nn.Linear(1, 1, device="meta"),
                 "weight is torch.float32 on meta, expected one of ")]:
            with self.assertRaisesRegex((sluice.torch.MisuseError, ValueError),
                                        said):
                sluice.torch.Optimizer(other, worker=worker)

    def test_a_module_that_writes_into_its_weights_is_refused_by_name(self):
        for kind in nn.Embedding, nn.EmbeddingBag:
            model = nn.ModuleDict({"words": kind(3, 2, max_norm=1.5),
                                   "head": nn.Linear(2, 1)})
            with self.assertRaisesRegex(
                    sluice.torch.MisuseError,
                    r"^words has max_norm=1\.5, expected None: its forward "
                    "writes into its weights, which are read-only"):
                model_and_optimizer(model=model)
            sluice.torch.LocalSteps(
                model, torch.optim.SGD(model.parameters(), lr=1),
                worker=FakeWorker(model, []))
            model["words"].weight.requires_grad_(False)  # The process's own.
            model_and_optimizer(model=model)

    def test_a_model_that_no_job_can_have_is_refused_by_name(self):
        for module, said in [
                (nn.BatchNorm1d(2, momentum=0), r"bn: its momentum is 0, expected"),
                (nn.BatchNorm1d(2, momentum=None), "bn: its momentum is None"),
                (nn.Linear(0, 2), r"bn.weight has the shape \[2, 0\], expected")]:
            model = nn.Sequential()
            with warnings.catch_warnings(action="ignore"):  # Of an empty tensor.
                model.add_module("bn", module)
            folder = harness.scratch()
            with self.assertRaisesRegex(ValueError, said):
                sluice.torch.init(model, folder, train_samples=8)
            self.assertEqual(list(folder.iterdir()), [])

    def test_parameters_that_share_memory_are_refused_by_their_names(self):
        def model(one, other):
            found = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False),
                                   "b": nn.Linear(2, 2, bias=False)})
            found["a"].weight.data, found["b"].weight.data = one, other
            return found

        memory = torch.zeros(12)
        square = memory[:4].view(2, 2)
        said = ("^a.weight and b.weight are two parameters that share memory, "
                "expected that each has its own; what is tied must be one "
                "Parameter")
        worker = FakeWorker(model(torch.zeros(2, 2), torch.zeros(2, 2)), [])
        for other in square, square.t(), memory[2:6].view(2, 2):
            with self.assertRaisesRegex(sluice.torch.MisuseError, said):
                sluice.torch.init(model(square, other), harness.scratch(),
                                  train_samples=8)
            frozen = model(square, other)
            frozen["b"].requires_grad_(False)
            for one in model(square, other), frozen:
                with self.assertRaisesRegex(sluice.torch.MisuseError, said):
                    sluice.torch.Optimizer(one, worker=worker)
        # Columns of one matrix lie between each other, and are not shared.
        columns = memory.view(2, 6)
        beside = model(columns[:, :2], columns[:, 2:4])
        tensors_of(beside)
        if hasattr(torch, "set_default_device"):  # From PyTorch 2.0 on.
            with torch.device("meta"):
                tensors_of(beside)
        with self.assertRaisesRegex(sluice.torch.MisuseError, said):
            tensors_of(model(columns[:, :2], columns[:, 1:3]))
        tied = model(square, torch.zeros(2, 2))
        tied["b"].weight = tied["a"].weight
        self.assertEqual(len(tensors_of(tied)), 1)

    def test_weights_are_loaded_by_name_into_what_is_frozen_or_trained(self):
        def network():
            model = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2),
                                  nn.Linear(2, 2))
            for parameter in model.parameters():
                nn.init.normal_(parameter)
            return model

        def saved(model):
            folder = harness.scratch()
            sluice.torch.init(model, folder, train_samples=8)
            return folder / "version0.safetensors"

        whole = network()
        whole[1].running_mean.fill_(3)
        expected = whole.state_dict()
        frozen = network()
        sluice.torch.load(frozen.requires_grad_(False), saved(whole))
        for name, values in frozen.state_dict().items():
            self.assertTrue(torch.equal(values, expected[name]), name)
        # A file of less: what was frozen in its run is in this model, too.
        whole[0].requires_grad_(False)
        head = network()
        path = saved(whole)
        with self.assertRaisesRegex(
                ValueError, r"has \[\] which the model has not, and lacks "
                r"\['0.bias', '0.weight'\]"):
            sluice.torch.load(head, path)
        head[0].requires_grad_(False)
        sluice.torch.load(head, path)
        self.assertTrue(torch.equal(head[2].weight, whole[2].weight))
        self.assertFalse(torch.equal(head[0].weight, whole[0].weight))
        with self.assertRaisesRegex(ValueError, r"has \['2.bias', '2.weight'\] "
                                    r"which the model has not, and lacks \[\]"):
            sluice.torch.load(head[:2], path)

    def test_a_name_that_no_job_accepts_is_refused_when_it_is_written(self):
        for name in "a b", "\u00e4", "x" * 250:  # And ".weight" follows.
            folder = harness.scratch()
            with self.assertRaisesRegex(ValueError, f"'{name}.weight' is the "
                                        "name of a tensor, expected 1 to 256"):
                sluice.torch.init(nn.ModuleDict({name: nn.Linear(1, 1)}),
                                  folder, train_samples=8)
            self.assertEqual(list(folder.iterdir()), [])
        for name in 'a"b\\', "x" * 249:
            sluice.torch.init(nn.ModuleDict({name: nn.Linear(1, 1)}),
                              harness.scratch(), train_samples=8)

    def test_what_no_job_has_is_told_apart_by_its_values(self):
        def digest(frozen=0.5, buffer=0.5, statistic=0.5):
            model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
            nn.init.constant_(model[0].bias.requires_grad_(False), frozen)
            model.register_buffer("table", torch.tensor([1, buffer]))
            model.register_buffer("edges", torch.eye(2).to_sparse())
            model[1].running_mean.fill_(statistic)
            return fixed_digest(fixed_digests(model))

        self.assertEqual(digest(), digest(statistic=1))
        self.assertEqual(len({digest(), digest(frozen=1), digest(buffer=1)}), 3)
        self.assertEqual(fixed_digest(fixed_digests(nn.BatchNorm1d(1))), "")

        def of_buffer(values):
            model = nn.Module()
            model.register_buffer("table", values)
            return fixed_digest(fixed_digests(model))

        # A view that is the conjugate, or the negative, of what is in memory.
        values = torch.tensor([1 + 2j, 3 - 4j])
        for view in values.conj(), values.conj().imag:
            self.assertEqual(of_buffer(view), of_buffer(view.clone()))
            self.assertEqual(of_buffer(view), of_buffer(
                torch.tensor(view.tolist())))

    def test_what_no_job_has_and_changes_in_training_is_refused_by_name(self):
        def train(model, changed=None):
            _, opt, _ = model_and_optimizer(FakeTask(0), FakeTask(1),
                                            model=model)
            for batch in opt.batches(SAMPLES):
                opt.zero_grad()
                loss = loss_of(model, batch)
                loss.backward()
                if changed is not None:
                    changed.add_(1)
                opt.step(loss)

        model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(1, 3)),
                              nn.Linear(3, 1))
        with self.assertRaisesRegex(
                sluice.torch.MisuseError,
                r"^0\.weight_u has changed in a mini-batch, expected"):
            train(model)
        model = nn.Linear(1, 1)
        model.bias.requires_grad_(False)
        with self.assertRaisesRegex(sluice.torch.MisuseError,
                                    "^bias has changed"):
            train(model, model.bias)
        # A cache may change, and a batch norm counts its mini-batches.
        model = nn.Sequential(nn.BatchNorm1d(1))
        model.register_buffer("cache", torch.zeros(1), persistent=False)
        train(model, model.cache)
        self.assertEqual(model.cache, 2)

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

    def test_zeros_are_not_written_into_what_is_being_pushed(self):
        model, opt, worker = model_and_optimizer(FakeTask(0))
        for batch in opt.batches(SAMPLES):
            loss = loss_of(model, batch)
            loss.backward()
            opt.step(loss)
            opt.zero_grad()
        self.assertNotIn(0, list(worker.gradients[0]))

    def test_what_a_program_does_to_gradients_after_step_is_not_pushed(self):
        def clear(model, _):
            model.zero_grad(set_to_none=False)

        def scale(model, _):
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(2)

        def add(model, batch):
            loss_of(model, batch).backward()

        for change in clear, scale, add:
            for overlap in False, True:
                with self.subTest(change=change, overlap=overlap):
                    model, opt, worker = model_and_optimizer(
                        FakeTask(0), FakeTask(1), overlap=overlap)
                    for batch, bias in zip(opt.batches(SAMPLES),
                                           [1 / 8, 2 / 8]):
                        loss = loss_of(model, batch)
                        loss.backward()
                        opt.step(loss)
                        change(model, batch)
                        self.assertEqual(list(worker.gradients[0]),
                                         [3 * bias - 5, 2 * bias - 3])
                    # The next mini-batch's are in the worker's memory again.
                    self.assertEqual(opt.copied_total, 0)

    def test_a_gradient_elsewhere_stays_after_step(self):
        model, opt, _ = model_and_optimizer(FakeTask(0))
        for batch in opt.batches(SAMPLES):
            opt.zero_grad(set_to_none=True)
            loss_of(model, batch).backward()
            opt.step(0.0)
            self.assertAlmostEqual(model.bias.grad.item(), 2 / 8 - 3, 6)


# Two tensors that are worth a message each, and a small one behind them.
WIDE = 1 << 18


def two_wide():
    return nn.Sequential(nn.Linear(1, WIDE, bias=False),
                         nn.Linear(WIDE, 1, bias=False), nn.Linear(1, 1))


@harness.suite("torch")
class OverlapTest(unittest.TestCase):

    def finals(self, loss_of_batch, model=None, overlap=True):
        """The offsets that were final before the end, and the gradient."""
        task = FakeTask(0)
        model, opt, worker = model_and_optimizer(
            task, model=model or two_wide(), overlap=overlap)
        opt.run(lambda batch: loss_of_batch(model, batch), SAMPLES)
        self.assertIsNotNone(task.loss)
        self.assertEqual(opt.copied_total, 0)
        return task.final, list(worker.gradients[0])

    def test_gradients_travel_from_the_end_while_backward_runs(self):
        final, gradient = self.finals(loss_of)
        self.assertEqual(final, [WIDE, 0])
        self.assertEqual(self.finals(loss_of, overlap=False), ([], gradient))

    def test_what_has_no_gradient_holds_up_what_is_before_it(self):
        def loss(model, batch):
            return loss_of(model[2], batch) + model[0].weight.sum()
        self.assertEqual(self.finals(loss)[0], [])

    def test_a_tied_tensor_is_final_when_both_its_uses_are_added(self):
        model = two_wide()[:2]
        def loss(model, batch):
            return (model(batch[0].float().view(-1, 1)).sum() +
                    model[0].weight.sum())
        final, gradient = self.finals(loss, model)
        self.assertEqual(final, [WIDE, 0])
        # Each is 1 from its second use, and x times the other's from the first.
        x = sum(first for first, _ in SAMPLES)
        self.assertEqual(gradient[8], 1 + x * (WIDE + 8) / 8)

    def test_a_gradient_that_is_added_to_twice_is_refused(self):
        model, opt, _ = model_and_optimizer(FakeTask(0), overlap=True)
        with self.assertRaisesRegex(sluice.torch.MisuseError,
                                    "got its gradient twice in a mini-batch"):
            for batch in opt.batches(SAMPLES):
                loss_of(model, batch).backward()
                loss_of(model, batch).backward()

    def test_gradients_may_arrive_on_several_threads(self):
        task = FakeTask(0)
        model, opt, _ = model_and_optimizer(task, model=two_wide(),
                                            overlap=True)
        have, threads = opt._have_gradients_from, []

        def meet_another(first):
            """A thread that brings the next gradient, and would overtake."""
            if not threads:
                threads.append(threading.Thread(target=opt._on_gradient,
                                                args=[0]))
                threads[0].start()
                threads[0].join(timeout=0.3)
            have(first)

        opt._have_gradients_from = meet_another
        for _ in opt.batches(SAMPLES):
            for at in 2, 3, 1:  # The other one's is 0.
                opt._on_gradient(at)
            threads[0].join()
            opt.step(0.0)
        self.assertEqual(task.final, [WIDE, 0])

    def test_a_loop_of_its_own_goes_on_where_backward_finds_a_cancel(self):
        tasks = [FakeTask(0, cancelled_at=1), FakeTask(1)]
        model, opt, _ = model_and_optimizer(*tasks, model=two_wide(),
                                            overlap=True)
        for batch in opt.batches(SAMPLES):
            opt.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            opt.step(loss)
        self.assertEqual(tasks[0].final, [WIDE])
        self.assertTrue(tasks[0].over)
        self.assertIsNone(tasks[0].loss)
        self.assertEqual(tasks[1].final, [WIDE, 0])
        self.assertIsNotNone(tasks[1].loss)

    def test_in_run_backward_ends_when_the_task_is_cancelled(self):
        # run() checks at each of three modules and Sequential, and after them.
        tasks = [FakeTask(0, cancelled_at=6), FakeTask(1)]
        model, opt, _ = model_and_optimizer(*tasks, model=two_wide(),
                                            overlap=True)
        opt.run(lambda batch: loss_of(model, batch), SAMPLES)
        self.assertEqual(tasks[0].final, [WIDE])
        self.assertIsNone(tasks[0].loss)
        self.assertEqual(tasks[1].final, [WIDE, 0])


if __name__ == "__main__":
    harness.main()
