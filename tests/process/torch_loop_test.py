#!/usr/bin/python3 -B
"""What a loop over sluice.torch's mini-batches may do with its model, what is
said of what it must not, and where in the run it is."""

import contextlib
import copy
import dataclasses
import unittest
import warnings
from multiprocessing.reduction import ForkingPickler

import harness
from fake_worker import (SAMPLES, FakeEvaluation, FakeTask, FakeWorker, loss_of,
                         model_and_evaluator, model_and_optimizer)

if "torch" in harness.SUITES:
    import torch
    import torch.multiprocessing  # Has ForkingPickler send tensors.
    from torch import nn

    import sluice.torch


def optimizer(kind, model, *tasks):
    worker = FakeWorker(model, tasks)
    if kind == "Optimizer":
        return sluice.torch.Optimizer(model, worker=worker)
    return sluice.torch.LocalSteps(
        model, torch.optim.SGD(model.parameters(), lr=1), worker=worker)


@harness.suite("torch")
class TrainedTest(unittest.TestCase):

    def refused_at(self, mini_batch, kind, before):
        """What is said where a bias with requires_grad=`before` changes that in
        a mini-batch, or before the loop (-1)."""
        model = nn.Linear(1, 1)
        model.bias.requires_grad_(before)
        opt = optimizer(kind, model, *[FakeTask(n) for n in range(3)])
        if mini_batch < 0:
            model.bias.requires_grad_(not before)
        computed = 0
        with self.assertRaises(sluice.torch.MisuseError) as raised:
            for batch in opt.batches(SAMPLES):
                if computed == mini_batch:
                    model.bias.requires_grad_(not before)
                opt.zero_grad()
                loss = loss_of(model, batch)
                loss.backward()
                opt.step(loss)
                computed += 1
        self.assertEqual(computed, max(0, mini_batch))
        return str(raised.exception)

    def test_what_is_trained_does_not_change_in_the_loop(self):
        for kind in "Optimizer", "LocalSteps":
            for before in True, False:
                for mini_batch in -1, 0, 2:
                    with self.subTest(kind, before=before, at=mini_batch):
                        self.assertEqual(
                            self.refused_at(mini_batch, kind, before),
                            f"bias has requires_grad={not before}, expected "
                            f"{before} as when sluice.torch.{kind} took the "
                            "model: the job fixes which parameters are trained")


    def test_what_is_trained_stays_in_the_model(self):
        def assign(model):  # What load_state_dict does with assign=True.
            model[0].weight = nn.Parameter(model[0].weight.detach().clone())

        def replace(model):
            model[0] = nn.Linear(1, 1)

        def wrap(model):
            model[0] = nn.Sequential(model[0])

        for kind in "Optimizer", "LocalSteps":
            for change, is_refused in (assign, 1), (replace, 1), (wrap, 0):
                for at in -1, 0, 1:
                    model = nn.Sequential(nn.Linear(1, 1))
                    opt = optimizer(kind, model, *[FakeTask(n)
                                                   for n in range(2)])
                    with (self.subTest(kind, change=change, at=at),
                          contextlib.ExitStack() as expecting):
                        if is_refused:
                            expecting.enter_context(self.assertRaisesRegex(
                                sluice.torch.MisuseError,
                                r"^0\.weight is no parameter of the model any "
                                rf"more, expected .* sluice\.torch\.{kind} "
                                "took it"))
                        if at < 0:
                            change(model)
                        for n, batch in enumerate(opt.batches(SAMPLES)):
                            opt.zero_grad()
                            loss = loss_of(model, batch)
                            if n == at:
                                change(model)
                            loss.backward()
                            opt.step(loss)

    def test_what_is_measured_stays_in_the_model(self):
        evaluations = [FakeEvaluation(0), FakeEvaluation(1)]
        model, opt = model_and_evaluator(*evaluations)

        def measure():
            model.bias = nn.Parameter(model.bias.detach().clone())
            return model.bias.item()

        with self.assertRaisesRegex(sluice.torch.MisuseError,
                                    "^bias is no parameter of the model any"):
            opt.evaluate(measure)
        self.assertEqual([e.measured for e in evaluations], [(1 / 8,), None])


@harness.suite("torch")
class LeftLoopTest(unittest.TestCase):

    def test_a_loop_that_was_left_goes_on_with_the_next_mini_batch(self):
        tasks = {"Optimizer": [FakeTask(n) for n in range(5)],
                 "LocalSteps": [FakeTask(n, batches=((0,), (1,), (0, 1)))
                                for n in (0, 3)]}
        for kind, of_kind in tasks.items():
            for loops_over in self.datasets():
                opt = optimizer(kind, nn.Linear(1, 1), *of_kind)
                sizes = [[] for _ in range(4)]
                for epoch, dataset in zip(sizes, loops_over):
                    for x, _ in opt.batches(dataset):
                        epoch.append(len(x))
                        opt.step(0.0)
                        if len(epoch) == 2:
                            break
                self.assertEqual(sizes, {
                    "Optimizer": [[2, 2], [2, 2], [2], []],
                    "LocalSteps": [[1, 1], [2, 1], [1, 2], []]}[kind])
                for task in of_kind:
                    self.assertTrue(task.over)
                    task.over = False

    def datasets(self):
        """For each of four loops: the same, or one after the other."""
        loader = torch.utils.data.DataLoader(SAMPLES, batch_size=2,
                                             num_workers=1)
        return [[SAMPLES] * 4, [loader] * 4, [SAMPLES, loader, SAMPLES, loader]]

    def test_one_that_was_left_without_step_is_refused(self):
        opt = optimizer("Optimizer", nn.Linear(1, 1), FakeTask(3), FakeTask(4))
        for _ in opt.batches(SAMPLES):
            break
        with self.assertRaisesRegex(
                sluice.torch.MisuseError,
                r"^step\(loss\) was not called for mini-batch 3$"):
            next(opt.batches(SAMPLES))


@harness.suite("torch")
class HooksTest(unittest.TestCase):
    """Before each module run() asks whether its task has been cancelled."""

    def test_what_the_dataset_calls_of_the_model_leaves_no_task(self):
        # Checks: at the second module of run()'s own call of the model.
        tasks = [FakeTask(0, cancelled_at=2), FakeTask(1, cancelled_at=2),
                 FakeTask(2)]
        model = nn.Sequential(nn.Linear(1, 1))

        class Computed:
            def __len__(self):
                return 2
            def __getitem__(self, i):
                with torch.no_grad():
                    return model(torch.ones(1)).item(), 1.0

        _, opt, _ = model_and_optimizer(*tasks, model=model)
        opt.run(lambda batch: loss_of(model, batch), Computed())
        self.assertEqual([(task.checks, task.loss is None) for task in tasks],
                         [(2, True), (2, True), (4, False)])

    def test_a_scripted_module_may_be_in_the_model(self):
        scripted = torch.jit.script(nn.Linear(1, 1))
        # Checks: of the Sequential and of its last module, then after them.
        tasks = [FakeTask(0), FakeTask(1, cancelled_at=2), FakeTask(2)]
        model, opt, worker = model_and_optimizer(
            *tasks, model=nn.Sequential(scripted, nn.Linear(1, 1)))
        opt.run(lambda batch: loss_of(model, batch), SAMPLES)
        self.assertEqual([(task.checks, task.loss is None) for task in tasks],
                         [(4, False), (2, True), (4, False)])
        self.assertEqual(len(worker.description.tensors), 4)
        self.assertEqual(opt.copied_total, 0)
        evaluation = FakeEvaluation(0)
        model, opt = model_and_evaluator(evaluation, model=scripted)
        opt.evaluate(lambda: model(torch.ones(1)).item())
        self.assertEqual(evaluation.measured, (1 / 8,))


@harness.suite("torch")
class SentTest(unittest.TestCase):
    """What is sent to another process is moved into other memory, and with it
    all that is a view of the same."""

    def train(self, sent, when, **options):
        """The weights and the gradients of mini-batches, of which the first
        two send what `sent(model)` is at their begin, before step() or
        "after"."""
        model, opt, worker = model_and_optimizer(
            *[FakeTask(n) for n in range(4)], model=nn.Linear(1, 1), **options)
        found = []
        for n, batch in enumerate(opt.batches(SAMPLES)):
            kept = sent and sent(model)
            def send(now, n=n, kept=kept):
                if n < 2 and now == when:
                    ForkingPickler.dumps(kept)
            weights = [p.item() for p in model.parameters()]
            send("first")
            loss = loss_of(model, batch)
            loss.backward()
            send("before")
            opt.step(loss)
            send("after")
            found.append((weights, list(worker.gradients[0])))
            for memory in worker.weights:  # The worker receives some.
                memory[0] += 1
        return found

    def test_the_loop_goes_on_in_the_memory_that_is_the_workers(self):
        expected = self.train(None, None)
        self.assertNotEqual(expected[0], expected[1])
        for what in (lambda model: model.state_dict(),
                     lambda model: [p.grad for p in model.parameters()]):
            for when in "first", "before", "after":
                for overlap in False, True:
                    with self.subTest(when=when, overlap=overlap):
                        self.assertEqual(
                            self.train(what, when, overlap=overlap), expected)


@harness.suite("torch")
class WordsTest(unittest.TestCase):

    def test_a_parameter_without_a_gradient_is_named_once(self):
        model, opt, worker = model_and_optimizer(*[FakeTask(n)
                                                   for n in (3, 4)])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for x, _ in opt.batches(SAMPLES):
                model.zero_grad(set_to_none=True)
                (x.float() * model.weight).sum().backward()
                opt.step(0.0)
                self.assertEqual(list(worker.gradients[0]), [3, 0])
        self.assertEqual(
            [str(one.message) for one in said],
            ["bias has no gradient in mini-batch 3, which counts as one of "
             "zeros: momentum and weight decay go on, where torch leaves the "
             "parameter as it is (said once for each parameter)"])
        self.assertEqual(said[0].filename, __file__)


    def test_a_logged_value_that_is_no_number_is_named_once(self):
        tasks = [FakeTask(n) for n in (3, 4)]
        _, opt, _ = model_and_optimizer(*tasks)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in opt.batches(SAMPLES):
                opt.log({"norm": torch.tensor(float("nan")), "rate": 1,
                         "score": float("-inf")})
                opt.step(0.0)
        self.assertEqual(
            [(str(one.message), one.filename) for one in said],
            [(f"the value logged as {name} is {value} in mini-batch 3: the "
              "moving average leaves it out (said once for each name)",
              __file__) for name, value in [("norm", "nan"),
                                            ("score", "-inf")]])
        self.assertEqual(tasks[1].logged.keys(), {"norm", "rate", "score"})

    def test_a_loss_that_is_not_one_number_is_refused_with_its_shape(self):
        for loss, shape in [(torch.ones(2), "[2]"),
                            (torch.ones(2, 0), "[2, 0]")]:
            _, opt, _ = model_and_optimizer(FakeTask(0))
            next(opt.batches(SAMPLES))
            with self.assertRaises(sluice.torch.MisuseError) as raised:
                opt.step(loss)
            self.assertEqual(
                str(raised.exception), "step(loss) was given a loss of the "
                f"shape {shape}, expected one number: the mean over the "
                "mini-batch")
        for loss in torch.ones(()), torch.ones(1, 1), 1:
            task = FakeTask(0)
            _, opt, _ = model_and_optimizer(task)
            for _ in opt.batches(SAMPLES):
                opt.step(loss)
            self.assertEqual(task.loss, 1)


@harness.suite("torch")
class StatisticsTest(unittest.TestCase):

    def assert_is_the_clusters(self, model, version):
        """Its statistics are those of the fake worker's weights, and it is as
        the program made it."""
        self.assertEqual(model[0].running_mean, 2 * (version + 1) / 8)
        self.assertEqual(model[0].running_var, 3 * (version + 1) / 8)
        self.assertEqual(model[0].momentum, 0.3)
        self.assertFalse(model[0]._forward_hooks)

    def test_after_step_they_are_the_clusters_and_nothing_is_left_behind(self):
        tasks = {"Optimizer": [FakeTask(0), FakeTask(1)],
                 "LocalSteps": [FakeTask(0, batches=((0, 1), (1, 1))),
                                FakeTask(3)]}
        for kind, of_kind in tasks.items():
            model = nn.Sequential(nn.BatchNorm1d(1, momentum=0.3))
            opt = optimizer(kind, model, *of_kind)
            self.assertFalse(model[0]._forward_hooks)
            for batch in opt.batches(SAMPLES):
                opt.zero_grad()
                loss = loss_of(model, batch)
                loss.backward()
                self.assertEqual(model[0].running_mean, batch[0].mean())
                opt.step(loss)
                self.assert_is_the_clusters(copy.deepcopy(model),
                                            opt._task.weights_buffer)
                # What is in train mode without being a mini-batch is no matter.
                loss_of(model, batch)

    def test_one_that_is_computed_has_no_graph(self):
        class Computed(nn.modules.batchnorm._NormBase):
            def forward(self, x):
                self.running_mean = (self.running_mean.detach() * 0.5 +
                                     x.mean(0) / 2)
                return x - x.mean(0)
        for kind in "Optimizer", "LocalSteps":
            model = nn.Sequential(nn.Linear(1, 1), Computed(1))
            opt = optimizer(kind, model, *[FakeTask(n) for n in range(3)])
            for batch in opt.batches(SAMPLES):
                opt.zero_grad()
                loss = loss_of(model, batch)
                loss.backward()
                opt.step(loss)
            self.assertFalse(any(one.requires_grad
                                 for one in opt._memory.gradient))

    def test_one_of_another_shape_is_refused_by_name(self):
        class Scalar(nn.BatchNorm1d):
            def forward(self, x):
                y = super().forward(x)
                self.running_var = self.running_var.mean()
                return y
        model = nn.Sequential(nn.Linear(1, 4), Scalar(4))
        opt = optimizer("Optimizer", model, FakeTask(0))
        with self.assertRaisesRegex(
                sluice.torch.MisuseError, r"^1\.running_var is \(\) after a "
                r"mini-batch, expected \(4,\) as before it"):
            for x, _ in opt.batches(SAMPLES):
                model(x.float().view(-1, 1)).sum().backward()
                opt.step(0.0)

    def test_a_copy_made_in_a_mini_batch_may_have_its_statistics_anew(self):
        model = nn.Sequential(nn.BatchNorm1d(1))
        opt = optimizer("Optimizer", model, FakeTask(0))
        for x, _ in opt.batches(SAMPLES):
            copied = torch.optim.swa_utils.AveragedModel(model)
            x = x.float().view(-1, 1)
            torch.optim.swa_utils.update_bn([x, 3 * x], copied)
            self.assertEqual(copied.module[0].running_mean, (1.5 + 4.5) / 2)
            opt.step(0.0)

    def test_nothing_is_left_behind_where_a_mini_batch_has_no_step(self):
        model = nn.Sequential(nn.BatchNorm1d(1, momentum=0.3))
        opt = optimizer("Optimizer", model, FakeTask(0, cancelled_at=1))
        opt.run(lambda batch: loss_of(model, batch), SAMPLES)
        self.assert_is_the_clusters(model, 0)
        opt = optimizer("Optimizer", model, FakeTask(0), FakeTask(1))
        with self.assertRaises(sluice.torch.MisuseError):
            for _ in opt.batches(SAMPLES):
                pass
        self.assert_is_the_clusters(model, 0)


@harness.suite("torch")
class EpochTest(unittest.TestCase):

    def epochs(self, mini_batches, **job):
        """In samples."""
        _, opt, worker = model_and_optimizer(
            *[FakeTask(n) for n in range(mini_batches)])
        worker.description = dataclasses.replace(worker.description, **job)
        samples = job["train_samples"]
        found = []
        for _ in opt.batches([0.0] * samples):
            found.append(opt.epoch * samples)
            opt.step(0.0)
        return found

    def test_an_epoch_begins_at_a_whole_number_after_a_short_mini_batch(self):
        self.assertEqual(
            self.epochs(5, train_samples=110, batch_size=100),
            [0, 100, 110, 210, 220])
        # One that is longer than all samples.
        self.assertEqual(self.epochs(3, train_samples=2, batch_size=100),
                         [0, 2, 4])

    def test_static_partitions_take_turns_as_in_the_clusters_batch_grid(self):
        # The example in common/batch_grid.cc.
        self.assertEqual(
            self.epochs(7, train_samples=9, batch_size=4, partitions=2),
            [0, 4, 8, 9, 9 + 4, 9 + 8, 18])


if __name__ == "__main__":
    harness.main()
