#!/usr/bin/python3 -B
"""Models whose numbers are not float32: they have memory of their own, and what
the cluster holds is converted."""

import hashlib
import pathlib
import struct
import unittest

import harness
import small_torch
from fake_worker import (SAMPLES, FakeEvaluation, FakeTask, FakeWorker,
                         model_and_evaluator, model_and_optimizer)

if "torch" in harness.SUITES:
    import torch
    from torch import nn

    import sluice.torch


def line(dtype):
    """y = w x + b, in operations that PyTorch 1.13 has of each type."""
    class Line(nn.Linear):
        def forward(self, x):
            return self.weight * x + self.bias
    return Line(1, 1, dtype=dtype)


def loss_of(model, batch):
    """Half the sum of (w x + b - y)^2."""
    x, y = [one.to(model.weight) for one in batch]
    return sum((model(one) - other).square().float().sum() / 2
               for one, other in zip(x, y))


@harness.suite("torch")
class TypesTest(unittest.TestCase):

    def setUp(self):
        self.dtypes = torch.float64, torch.float16, torch.bfloat16

    def test_weights_and_gradients_are_converted(self):
        for dtype in self.dtypes:
            for overlap in False, True:
                with self.subTest(dtype=dtype, overlap=overlap):
                    model, opt, worker = model_and_optimizer(
                        FakeTask(0), FakeTask(1), overlap=overlap,
                        model=line(dtype))
                    for batch, bias in zip(opt.batches(SAMPLES),
                                           [1 / 8, 2 / 8]):
                        self.assertEqual(model.bias.dtype, dtype)
                        self.assertEqual(model.bias.item(), bias)
                        opt.zero_grad()
                        loss = loss_of(model, batch)
                        loss.backward()
                        self.assertEqual(model.bias.grad.dtype, dtype)
                        opt.step(loss)
                        # Each number of these has a place in bfloat16.
                        self.assertEqual(list(worker.gradients[0]),
                                         [3 * bias - 5, 2 * bias - 3])
                    self.assertEqual(opt.copied_total, 4)

    def test_a_gradient_that_was_not_computed_is_zeros(self):
        model, opt, worker = model_and_optimizer(
            FakeTask(0), model=nn.Linear(1, 1, dtype=torch.bfloat16))
        for _ in opt.batches(SAMPLES):
            opt.zero_grad()
            model.weight.sum().backward()
            with self.assertWarnsRegex(UserWarning, "bias has no gradient"):
                opt.step(0.0)
        self.assertEqual(list(worker.gradients[0]), [1, 0])

    def test_a_model_may_be_converted_between_two_mini_batches(self):
        model, opt, worker = model_and_optimizer(
            *[FakeTask(n) for n in (0, 1, 0)],
            model=nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)))
        after = []
        for (x, _), dtype in zip(opt.batches(SAMPLES),
                                 [torch.float32, torch.float64, torch.float32]):
            opt.zero_grad()
            model.to(dtype)
            model(x.to(dtype).view(-1, 1)).square().mean().backward()
            opt.step(0.0)
            after.append((model[1].running_mean.item(),
                          list(worker.gradients[0])))
            model.to(torch.float64 if dtype == torch.float32
                     else torch.float32)
        self.assertEqual([mean for mean, _ in after], [4 / 8, 8 / 8, 4 / 8])
        # Parameters 0 and 1 are w and b, 4 and 5 the statistics.
        self.assertEqual(after[0], after[2])
        self.assertEqual([gradient[4] for _, gradient in after],
                         [1 / 8, 2 / 8, 1 / 8])

    def test_local_steps_push_what_they_have_moved_and_no_rounding(self):
        # 1/3 is no number of these, so a step of nothing must be nothing.
        for dtype in self.dtypes:
            model = nn.Linear(1, 1, dtype=dtype)
            worker = FakeWorker(model, [FakeTask(0)])
            worker.weights[0] = memoryview(
                bytearray(struct.pack("2f", 1 / 3, 1 / 3))).cast("f")
            opt = sluice.torch.LocalSteps(
                model, torch.optim.SGD(model.parameters(), lr=1), worker=worker)
            for _ in opt.batches(SAMPLES):
                opt.zero_grad()
                (0 * model.weight + model.bias / 4).sum().backward()
                opt.step(0.0)
            moved = (torch.tensor(1 / 3).to(dtype) -
                     (torch.tensor(1 / 3).to(dtype) - 0.25)).item()
            self.assertEqual(list(worker.gradients[0]), [0, moved])

    def test_versions_are_measured(self):
        model, opt = model_and_evaluator(
            FakeEvaluation(1), model=nn.Linear(1, 1, dtype=torch.bfloat16))
        found = []
        opt.evaluate(lambda: found.append(model.bias.item()) or 0.0)
        self.assertEqual(found, [2 / 8])

    def test_the_job_of_a_model_has_its_weights_as_float32(self):
        model = nn.Linear(2, 1, dtype=torch.bfloat16)
        nn.init.constant_(model.weight, 1 / 3)
        job = sluice.torch.init(model, harness.scratch() / "job",
                                train_samples=2)
        again = nn.Linear(2, 1)
        sluice.torch.load(again, pathlib.Path(job).with_name(
            "version0.safetensors"))
        self.assertTrue(torch.equal(again.weight, model.weight.float()))
        for dtype in self.dtypes:
            other = nn.Linear(2, 1, dtype=dtype)
            sluice.torch.load(other, job.with_name("version0.safetensors"))
            self.assertTrue(torch.equal(other.weight, again.weight.to(dtype)))

    def test_a_program_needs_no_numpy(self):
        program = small_torch.write("""
import sys
sys.modules["numpy"] = None  # As where it is not installed.
import torch
from torch import nn
import sluice.torch
from sluice.torch_job import fixed_digests

model = nn.Linear(1, 2)
model.register_buffer("table", torch.tensor([1.0, 2.0, 3.0])[::2])
model.register_buffer("nothing", torch.empty(0))
nn.init.constant_(model.weight, 3)
sluice.torch.init(model, sys.argv[1], train_samples=8)
again = nn.Linear(1, 2)
sluice.torch.load(again, sys.argv[1] + "/version0.safetensors")
print(again.weight.tolist(), fixed_digests(model))
""")
        digests = [hashlib.sha256(f"torch.float32 [{size}]".encode() + values)
                   for size, values in [(2, struct.pack("<2f", 1, 3)), (0, b"")]]
        self.assertEqual(
            small_torch.output_of(program, harness.scratch()),
            "[[3.0], [3.0]] " + str(dict(zip(
                ["table", "nothing"], [one.hexdigest() for one in digests]))))

    def test_a_cluster_trains_one(self):
        converted = small_torch.changed(
            ("model = small()\n", "model = small().bfloat16()\n"),
            ("loss = nn.functional.mse_loss(model(x), y)",
             "loss = nn.functional.mse_loss(model(x.bfloat16()).float(), y)"),
            ("test_loss(model))", "test_loss(model.float()))"))
        job = small_torch.job(test_samples=10)
        same = harness.sets(["sync.gradients_per_update=3"])
        runs = [harness.train(job, *same, *cluster,
                              *small_torch.command(converted))
                for cluster in [["--workers=1"], ["--workers=3", "--shards=2"]]]
        self.assertEqual(*[run.summary["weights_sha256"] for run in runs])
        plain = harness.train(job, *same, "--workers=1",
                              *small_torch.command(small_torch.changed()))
        self.assertNotEqual(runs[0].summary["weights_sha256"],
                            plain.summary["weights_sha256"])
        losses = [run.summary["test_loss"] for run in (runs[0], plain)]
        print("test losses", losses)
        self.assertLess(abs(losses[0] - losses[1]), 0.2)


if __name__ == "__main__":
    harness.main()
