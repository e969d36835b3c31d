#!/usr/bin/python3 -B
"""Training loops in PyTorch under Sluice: those of python/examples."""

import difflib
import json
import subprocess
import sys
import unittest

import harness
import small_torch

FASHION_MNIST = small_torch.EXAMPLES / "fashion_mnist"
GPT = small_torch.EXAMPLES / "gpt"
LOADER = ("opt.batches(Samples())",
           "opt.batches(torch.utils.data.DataLoader(Samples(), batch_size=8, "
           "num_workers=2))")
OVERLAP = ("Optimizer(model)", "Optimizer(model, overlap=True)")
LOCAL_STEPS = ("sluice.torch.Optimizer(model)",
               "sluice.torch.LocalSteps(model, torch.optim.AdamW("
               "model.parameters(), lr=0.01), fresh_state=True)")


@harness.suite("torch")
class TorchTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.job = small_torch.job(test_samples=10)

    def train(self, job, program, *args):
        return harness.train(job, *args, *small_torch.command(program))

    def hashes(self, job, *programs_and_args, version):
        """Of the weights of each run, of which there is to be one alone."""
        found = {}
        for program, *args in programs_and_args:
            run = self.train(job, program, *args)
            self.assertEqual(run.summary["version"], version)
            found[str(program), *args] = run.summary["weights_sha256"]
        return found

    def test_sync_has_the_same_bits_for_any_cluster_and_way_to_load(self):
        plain = small_torch.changed()
        two = "--set=sync.gradients_per_update=2"
        found = self.hashes(
            self.job, (plain, two, "--workers=1", "--shards=1"),
            (plain, two, "--workers=3", "--shards=1"),
            (small_torch.changed(LOADER), two, "--workers=2"),
            (small_torch.changed(OVERLAP), two, "--workers=2", "--shards=2"),
            version=12)
        self.assertEqual(len(set(found.values())), 1, found)

    @unittest.skipUnless(hasattr(small_torch.torch(), "compile"),
                         "torch.compile is of PyTorch 2")
    def test_a_compiled_model_has_the_same_bits_for_any_cluster(self):
        program = small_torch.changed(
            ("opt = ", "compiled = torch.compile(model)\nopt = "),
            ("loss(model(x), y)", "loss(compiled(x), y)"))
        two = "--set=sync.gradients_per_update=2"
        found = self.hashes(self.job, (program, two, "--workers=1"),
                            (program, two, "--workers=2"), version=12)
        self.assertEqual(len(set(found.values())), 1, found)

    def test_local_steps_with_adamw_have_the_same_bits_for_any_cluster(self):
        program = small_torch.changed(LOCAL_STEPS)
        sets = harness.sets(["sync.gradients_per_update=2",
                             "optimizer.learning_rate=1"])
        found = self.hashes(small_torch.job(local_steps=3),
                            (program, "--workers=1", *sets),
                            (program, "--workers=2", "--shards=2", *sets),
                            version=4)
        self.assertEqual(len(set(found.values())), 1, found)

    def test_the_loop_differs_from_a_plain_one_in_five_lines_at_most(self):
        plain, ours = [(FASHION_MNIST / name).read_text().splitlines()[2:]
                       for name in ("plain.py", "train.py")]
        changed = [line for line in difflib.ndiff(plain, ours)
                   if line.startswith("+ ")]
        self.assertLessEqual(len(changed), 5, changed)

    def test_the_example_learns(self):
        job = small_torch.output_of(FASHION_MNIST / "make_job.py",
                                    harness.scratch())
        run = self.train(job, FASHION_MNIST / "train.py",
                         *harness.sets(["stop.updates=250"]))
        loss, accuracy = map(float, small_torch.output_of(small_torch.write("""
import sys, sluice.torch
from fashion_mnist import FashionMnist, LeNet, evaluate
model = LeNet()
sluice.torch.load(model, sys.argv[1])
print(*evaluate(model, FashionMnist("t10k")))
"""), run.dir / "weights.safetensors").split())
        print(f"accuracy {accuracy:.4f} after 250 updates")
        self.assertGreater(accuracy, 0.7)
        self.assertEqual(run.summary["test_accuracy"], accuracy)
        self.assertEqual(run.summary["test_loss"], loss)
        measured = [json.loads(line) for line in
                    (run.dir / "metrics.jsonl").read_text().splitlines()
                    if "test_accuracy" in line]
        self.assertGreaterEqual(len(measured), 2)
        self.assertLess(measured[0]["test_version"], 250)

    def test_a_loop_of_several_epochs_ends_with_the_run(self):
        run = self.train(self.job, small_torch.changed(
            ("in opt.batches(Samples()):",
             # Each leaves it after four mini-batches, and the last ones have
             # none.
             "in (batch for epoch in range(20)\n"
             "             for _, batch in zip(range(4),\n"
             "                                 opt.batches(Samples()))):"),
            ("opt.evaluate(", "print('after the loop')\nopt.evaluate(")))
        for name in "worker-0", "worker-1", "evaluator":
            log = (run.dir / f"{name}.log").read_text()
            self.assertIn("after the loop", log)
            self.assertNotIn("model_process", log)

    def test_an_evaluation_is_that_of_the_models_eval_mode(self):
        run = self.train(self.job, small_torch.changed())
        loss = float(small_torch.output_of(small_torch.write(
            small_torch.MODEL + """
model = small()
sluice.torch.load(model, sys.argv[1])
print(test_loss(model.eval()).item())
"""), run.dir / "weights.safetensors"))
        self.assertEqual(run.summary["test_loss"], loss)
        self.assertIsNone(run.summary["test_accuracy"])

    def test_a_program_that_measures_nothing_is_named(self):
        # It is ready before it looks for a coordinator.
        ended = subprocess.run(
            [harness.EVALUATOR, f"--job={self.job}",
             "--coordinator=127.0.0.1:1", "--", sys.executable, "-B",
             small_torch.changed(("opt.evaluate(", "str("))],
            capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("ended with exit status 0 before it was ready",
                      ended.stderr)
        self.assertIn("ended without a call of evaluate(measure)", ended.stderr)

    def loss_of(self, run):
        return json.loads((run.dir / "metrics.jsonl").read_text().splitlines()[
            -1])["loss"]

    def test_the_network_with_batch_norm_learns(self):
        program = FASHION_MNIST / "resnet.py"
        job = small_torch.output_of(program, harness.scratch())
        run = self.train(job, program, *harness.sets(["stop.updates=150"]))
        # Ten classes: log 10 is 2.3.
        self.assertLess(self.loss_of(run), 1.5)

    def test_the_gpt_learns(self):
        adamw, local_steps = small_torch.output_of(
            GPT / "make_job.py", harness.scratch()).splitlines()
        # 256 values of a byte: log 256 is 5.5.
        run = self.train(adamw, GPT / "train.py",
                         *harness.sets(["stop.updates=60"]))
        self.assertLess(self.loss_of(run), 4)
        run = self.train(local_steps, GPT / "train_local_steps.py",
                         *harness.sets(["stop.updates=8"]))
        self.assertLess(self.loss_of(run), 4)
        self.assertGreater(run.summary["logged"]["gradient_norm"], 0)


if __name__ == "__main__":
    harness.main()
