#!/usr/bin/python3 -B
"""Models on a device that cannot share memory with the worker: a GPU if the
machine has one, and always the CPU in the place of one."""

import unittest
import warnings
from unittest import mock

import harness
from fake_worker import FakeEvaluation, FakeTask, FakeWorker

if "torch" in harness.SUITES:
    import torch
    from torch import nn

    import sluice.torch
    from sluice import torch_memory

    class Net(nn.Module):
        """Has two tables that are worth a message each, a batch norm and a tied
        parameter."""

        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.table = nn.Embedding(64, 8192)
            self.other = nn.Embedding(64, 8192)
            self.norm = nn.BatchNorm1d(64)
            self.first = nn.Linear(64, 64)
            self.second = nn.Linear(64, 64)
            self.second.weight = self.first.weight

        def forward(self, x):
            y = (self.table.weight[x] * self.other.weight[x]).view(-1, 64)
            return self.second(self.first(self.norm(y)).relu()).square().mean()


# CUDA keeps what is pinned, so no later test's memory may have its addresses.
WORKERS = []


def worker_of(tasks, model=None, **options):
    """One of a Net, or of another model, with two vectors of weights up to 1
    and 2: squares do not overflow."""
    worker = FakeWorker(model or Net(), tasks, **options)
    for n, weights in enumerate(worker.weights):
        values = torch.frombuffer(weights, dtype=torch.float32)
        values.mul_((n + 1) / values.max())
    WORKERS.append(worker)
    return worker


def gradients_of(device, convert=lambda model: model, tasks=4, **options):
    """What each task of a Net delivers, as bytes; and what it announced."""
    made = [FakeTask(n) for n in range(tasks)]
    worker = worker_of(made)
    model = convert(Net().to(device))
    opt = sluice.torch.Optimizer(model, worker=worker, **options)
    found = []
    for _ in opt.batches([0, 1]):
        opt.zero_grad()
        loss = model(torch.arange(4, device=device))
        loss.backward()
        opt.step(loss)
        found.append(bytes(worker.gradients[0]))
    return found, [task.final for task in made]


class Elsewhere:
    """What holds of such a device."""
    device = "cpu"

    def test_gradients_are_those_of_the_workers_memory(self):
        with mock.patch.object(torch_memory, "_is_workers",
                               lambda device: True):
            expected, _ = gradients_of("cpu")
        self.assertEqual(len(set(expected)), 2)  # There are two of weights.
        for overlap in False, True:
            found, _ = gradients_of(self.device, overlap=overlap)
            self.check_same(found, expected)

    def check_same(self, found, expected):
        self.assertTrue(found == expected, "the bits differ")

    def test_other_types_are_converted_there(self):
        with mock.patch.object(torch_memory, "_is_workers",
                               lambda device: True):
            expected, _ = gradients_of("cpu", lambda model: model.double())
        found, _ = gradients_of(self.device, lambda model: model.double())
        self.check_same(found, expected)

    def test_parameters_and_gradients_are_views_of_two_vectors(self):
        worker = worker_of([FakeTask(0), FakeTask(1)])
        model = Net().to(self.device)
        opt = sluice.torch.Optimizer(model, worker=worker)
        before = [bytes(weights) for weights in worker.weights]
        kept = []
        for _ in opt.batches([0, 1]):
            opt.zero_grad()
            model(torch.arange(4, device=self.device)).backward()
            kept.append([value.data_ptr() for p in model.parameters()
                         for value in (p, p.grad)])
            # These are the process's own, so nothing keeps it from writing.
            with torch.no_grad():
                model.first.weight.add_(1)
            opt.step(0.0)
            # Nor is there a reason to take the gradients from the program.
            self.assertEqual(kept[-1][1::2], [p.grad.data_ptr()
                                              for p in model.parameters()])
        self.assertEqual(kept[0], kept[1])
        self.assertEqual(opt.copied_total, 0)
        begins, ends = zip(*((p.data_ptr(), p.data_ptr() + 4 * p.numel())
                             for p in model.parameters()))
        self.assertLess(max(ends) - min(begins),
                        4 * worker.description.parameters + 1)
        self.assertTrue(before == [bytes(one) for one in worker.weights],
                        "the worker's weights have changed")

    def test_what_has_arrived_is_announced_while_backward_runs(self):
        _, announced = gradients_of(self.device, overlap=True)
        _, in_step = gradients_of(self.device)
        for final in announced:
            self.check_announced(final)
        self.assertEqual(in_step, [self.announced_in_step] * 4)

    announced_in_step = []  # But for what done() says.

    def check_announced(self, final):
        self.assertEqual(final, [64 * 8192, 0])

    def test_after_a_task_that_was_given_up_the_next_is_whole(self):
        expected, _ = gradients_of(self.device)
        worker = worker_of([FakeTask(0, cancelled_at=1), FakeTask(1)])
        model = Net().to(self.device)
        opt = sluice.torch.Optimizer(model, overlap=True, worker=worker)
        for _ in opt.batches([0, 1]):
            opt.zero_grad()
            loss = model(torch.arange(4, device=self.device))
            loss.backward()
            opt.step(loss)
        self.check_same([bytes(worker.gradients[0])], expected[1:2])

    def test_local_steps_push_the_start_minus_the_end(self):
        worker = worker_of([FakeTask(1)])
        model = Net().to(self.device)
        opt = sluice.torch.LocalSteps(
            model, torch.optim.SGD(model.parameters(), lr=0.5), worker=worker)
        start = torch.frombuffer(worker.weights[1], dtype=torch.float32)
        for _ in opt.batches([0, 1]):
            opt.zero_grad()
            loss = model(torch.arange(4, device=self.device))
            loss.backward()
            opt.step(loss)
        pushed = torch.frombuffer(worker.gradients[0], dtype=torch.float32)
        for one, tensor in zip(sluice.torch.tensors_of(model),
                               worker.description.tensors):
            if not one.is_statistic:
                place = slice(tensor.offset, tensor.offset + tensor.size)
                end = one.tensor.detach().cpu().flatten()
                self.assertTrue(torch.equal(pushed[place],
                                            start[place] - end), one.name)

    def test_versions_are_measured_there(self):
        worker = worker_of([FakeEvaluation(1), FakeEvaluation(0)],
                            role="evaluator")
        model = Net().to(self.device)
        opt = sluice.torch.Optimizer(model, worker=worker)
        found = []
        opt.evaluate(lambda: found.append(
            (model.table.weight[0, 1].item(),
             str(model.table.weight.device)[:4])) or 0.0)
        self.assertEqual(found, [(weights[1], self.device)
                                 for weights in reversed(worker.weights)])
        # What an evaluator does not need takes no memory there.
        self.assertNotIn("flat", vars(opt._memory._mirror))

    def test_an_rnn_keeps_its_parameters_in_one_piece(self):
        def gradients(device):
            torch.manual_seed(1)
            model = nn.LSTM(3, 4).to(device)
            worker = worker_of([FakeTask(0), FakeTask(1)], model)
            opt = sluice.torch.Optimizer(model, worker=worker)
            own = [p.data_ptr() for p in model.parameters()]
            found = []
            for _ in opt.batches([0, 1]):
                opt.zero_grad()
                y, _ = model(torch.ones(2, 1, 3, device=device))
                y.sum().backward()
                kept = own == [p.data_ptr() for p in model.parameters()]
                opt.step(0.0)
                found.append(bytes(worker.gradients[0]))
            return kept, found

        with mock.patch.object(torch_memory, "_is_workers",
                               lambda device: True):
            kept, expected = gradients("cpu")
            self.assertFalse(kept)
        kept, found = gradients(self.device)
        self.assertTrue(kept)
        self.check_same(found, expected)


@harness.suite("torch")
class InPlaceOfAGpuTest(Elsewhere, unittest.TestCase):
    """The CPU, taken for a device with memory of its own."""

    def setUp(self):
        patch = mock.patch.object(torch_memory, "_is_workers",
                                  lambda device: False)
        patch.start()
        self.addCleanup(patch.stop)

    def test_torchs_default_type_does_not_matter(self):
        expected, _ = gradients_of("cpu")
        self.addCleanup(torch.set_default_dtype, torch.get_default_dtype())

        def then_another(model):
            torch.set_default_dtype(torch.float64)
            return model

        found, _ = gradients_of("cpu", then_another)
        self.check_same(found, expected)

    def test_what_was_sent_is_not_sent_again(self):
        worker = worker_of([FakeTask(0)])
        model = Net()
        opt = sluice.torch.Optimizer(model, overlap=True, worker=worker)
        for _ in opt.batches([0, 1]):
            opt.zero_grad()
            model(torch.arange(4)).backward()
            model.table.weight.grad.fill_(9)  # All has been sent by now.
            model.other.weight.grad.fill_(9)
            opt.step(0.0)
        self.assertNotIn(9, torch.frombuffer(worker.gradients[0],
                                             dtype=torch.float32))


@harness.suite("torch")
class OnAGpuTest(Elsewhere, unittest.TestCase):
    device = "cuda"
    announced_in_step = [0]  # When the one copy has ended.

    def setUp(self):
        if not torch.cuda.is_available():
            self.skipTest("SKIPPED: no GPU")
        self.addCleanup(setattr, torch.backends.cudnn, "allow_tf32",
                        torch.backends.cudnn.allow_tf32)
        torch.backends.cudnn.allow_tf32 = False

    def check_same(self, found, expected):
        for one, other in zip(found, expected):
            one, other = [torch.frombuffer(bytearray(bits), dtype=torch.float32)
                          for bits in (one, other)]
            self.assertGreater(other.norm(), 0)
            self.assertLess((one - other).norm(), 1e-4 * other.norm())

    def check_announced(self, final):
        # When a copy ends is the GPU's affair.
        self.assertEqual(final, sorted(final, reverse=True))
        self.assertEqual(final[-1:], [0])

    def test_the_workers_memory_is_pinned(self):
        worker = worker_of([FakeTask(0)])
        model = Net().cuda()
        opt = sluice.torch.Optimizer(model, worker=worker)
        for _ in opt.batches([0, 1]):
            model(torch.arange(4, device="cuda")).backward()
            opt.step(0.0)
        for memory in worker.weights[0], worker.gradients[0]:
            self.assertTrue(torch.frombuffer(
                memory, dtype=torch.float32).is_pinned())
        # Whoever refuses to pin it again says so, and is not in the way.
        again = sluice.torch.Optimizer(Net().cuda(), worker=worker)
        worker._tasks = [FakeTask(0)]
        with self.assertWarnsRegex(UserWarning, "CUDA does not pin"):
            for _ in again.batches([0, 1]):
                again.step(torch.ones(1, device="cuda").exp().log())

    def test_a_model_may_move_between_two_mini_batches(self):
        tasks = [FakeTask(0) for _ in range(4)]
        worker = worker_of(tasks)
        model = Net()
        opt = sluice.torch.Optimizer(model, worker=worker)
        found = []
        for _, to in zip(opt.batches([0, 1]), ["cuda", "cpu", "cuda", "cuda"]):
            opt.zero_grad()
            device = model.first.weight.device
            loss = model(torch.arange(4, device=device))
            loss.backward()
            opt.step(loss)
            found.append(bytes(worker.gradients[0]))
            model.to(to)
        self.check_same(found, found[:1] * 4)


if __name__ == "__main__":
    warnings.simplefilter("always")
    harness.main()
