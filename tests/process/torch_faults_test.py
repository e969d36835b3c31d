#!/usr/bin/python3 -B
"""PyTorch loops under Sluice when something dies or does what it must not: the
cluster goes on, and says what happened."""

import json
import os
import signal
import time
import unittest

import cluster
import harness
import small_torch
from ledger import Ledger

DISTURBED = harness.sets([
    "stop={updates: 400}", "delays.compute.constant.ms=10",
    "sync.gradients_per_update=3", "checkpoint.every_updates=50",
    "output.metrics_every_s=0.05"])


@harness.suite("torch")
class TorchFaultsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.program = small_torch.changed()
        cls.job = small_torch.job()
        calm = harness.train(cls.job, "--workers=1", *DISTURBED,
                             "--set=delays.compute.constant.ms=0",
                             *small_torch.command(cls.program))
        cls.calm = calm.summary["weights_sha256"]

    def start(self, *args, program=None):
        return cluster.Training(self.job, *args,
                                *small_torch.command(program or self.program))

    def longest_stall(self, run):
        """Seconds between two versions, once there are any."""
        lines = [json.loads(line) for line in
                 (run.dir / "metrics.jsonl").read_text().splitlines()]
        times = {}
        for line in lines:
            times.setdefault(line["version"], line["seconds"])
        times = sorted(t for version, t in times.items() if version > 0)
        return max(b - a for a, b in zip(times, times[1:]))

    def test_a_killed_model_process_holds_the_others_up_for_less_than_2_s(self):
        with self.start("--workers=3", "--shards=2", *DISTURBED) as run:
            run.await_version(50)
            os.kill(run.model_process("worker-1", self.program),
                    signal.SIGKILL)
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertRegex(run.log("worker-1"), r"the model process \(pid "
                             r"\d+, .*\) was killed by signal 9")
            Ledger(run.dir / "commit_log").check(self)
            stall = self.longest_stall(run)
            print(f"longest stall {stall:.2f} s")
            self.assertLess(stall, 2)
            self.assertEqual(run.summary["weights_sha256"], self.calm)

    # A fresh process of other systems has been seen to win: its first weights
    # replaced those that the others had trained.
    def test_a_fresh_process_never_wipes_the_clusters_weights(self):
        with self.start("--workers=1", *DISTURBED) as run:
            run.await_version(50)
            os.kill(run.model_process("worker-0", self.program),
                    signal.SIGKILL)
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertIn("event=new_life incarnation=2", run.log("worker-0"))
            self.assertEqual(run.summary["weights_sha256"], self.calm)

    def test_after_the_death_of_a_shard_all_go_on_from_the_checkpoint(self):
        with self.start("--workers=3", "--shards=2", *DISTURBED) as run:
            run.await_version(120)
            run.signal("ps_server-1", signal.SIGKILL)
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertIn("begun again 1 time:", output)
            checked = harness.tool("ledger", run.dir)
            self.assertEqual(checked.returncode, 0,
                             checked.stdout + checked.stderr)
            self.assertEqual(run.summary["weights_sha256"], self.calm)

    def test_misuse_is_said(self):
        for replaced, said in [
                (("return 96", "return 95"),
                 "the dataset has 95 samples, the job's "
                 "data.external.train_samples is 96"),
                (("nn.Linear(5, 1))", "nn.Linear(5, 2))"),
                 "the model has ('4.weight', (2, 5), 'WEIGHT'), expected "
                 "('4.weight', (1, 5), 'WEIGHT') as the job says"),
                (("    opt.step(loss)\n", ""),
                 "step(loss) was not called for mini-batch 0"),
                (("    opt.step(loss)\n", "    opt.step(loss)\n" * 2),
                 "step(loss) was called twice"),
                (("    loss.backward()\n",
                  "    loss.backward()\n    raise ValueError('no')\n"),
                 "ValueError: no"),
                (("    loss.backward()\n",
                  "    loss.backward()\n    sys.exit(3)\n"),
                 "ended with exit status 3 in task 1"),
                (("    loss.backward()\n",
                  "    loss.backward()\n    sluice.torch.Optimizer(model)\n"),
                 "this program has its worker already, expected one Worker (an "
                 "Optimizer is one) in a process"),
                (("    loss.backward()\n",
                  "    model[4].weight.data.mul_(0.9)\n    loss.backward()\n"),
                 "Fatal Python error: Segmentation fault"),
                (("model = small()\n", "model = small().to(torch.cfloat)\n"),
                 "0.weight is torch.complex64 on cpu, expected one of ")]:
            with self.subTest(said=said):
                with self.start("--workers=1",
                                program=small_torch.changed(replaced)) as run:
                    log = run.dir / "worker-0.log"
                    harness.wait_until(
                        lambda: log.exists() and said in log.read_text(),
                        said, run.process)

    def test_other_frozen_parameters_are_refused(self):
        began = time.monotonic()
        run = harness.Run(
            self.job, "--workers=2",
            *small_torch.command(small_torch.changed(
                ("nn.init.ones_(model[4].bias.requires_grad_(False))",
                 "nn.init.constant_(model[4].bias.requires_grad_(False), "
                 "os.getpid())"))))
        logs = "".join((run.dir / f"worker-{i}.log").read_text()
                       for i in range(2))
        self.assertRegex(
            logs, r'worker (\d): input of the model process is .?"frozen '
            r'parameters and buffers, sha256 \w{64}.?" here, .?"frozen '
            r'parameters and buffers, sha256 \w{64}.?" at worker (?!\1)\d')
        self.assertEqual(run.result.returncode, 1)
        # It is not waited for until limits.start_timeout_s, 300 s.
        self.assertLess(time.monotonic() - began, 120)
        self.assertRegex(
            run.result.stderr, r"the run failed: worker-\d: exit status 1: "
            r'coordinator at .*: worker \d: input of the model process is "'
            ".*; the run does not begin without it\n")

    def test_an_evaluator_with_other_frozen_parameters_is_refused(self):
        run = harness.Run(
            small_torch.job(test_samples=10), "--workers=1",
            *small_torch.command(small_torch.changed(
                ("nn.init.ones_(model[4].bias.requires_grad_(False))",
                 "nn.init.constant_(model[4].bias.requires_grad_(False), "
                 "os.getpid() / 1e6)"))))
        self.assertEqual(run.result.returncode, 1)
        # Whoever comes last.
        self.assertRegex(
            run.result.stderr, r'the run failed: .*(worker 0|evaluator): input '
            r'of the model process is "frozen parameters and buffers, sha256 '
            r'\w{64}" here, ".*" at (?!\1)(worker 0|evaluator)')

    def test_a_program_that_runs_on_after_the_run_is_named_and_killed(self):
        run = harness.train(
            self.job, "--workers=1", "--set=limits.model_process_end_s=2",
            *small_torch.command(small_torch.changed(
                ("opt.evaluate(",
                 "print('goes on', flush=True)\n"
                 "import time; time.sleep(100)\nopt.evaluate("))))
        log = (run.dir / "worker-0.log").read_text()
        self.assertIn("goes on", log)
        self.assertRegex(
            log, r'event=model_process_runs_on reason="the model process '
            r'\(pid \d+, .*\) was told to end, and is killed 2s after that, or '
            r'with this process"')
        self.assertIn("event=model_process_killed", log)

    def test_one_worker_that_misuses_it_does_not_stop_the_other(self):
        # The first process of worker 1, and no other, does.
        once = harness.scratch() / "done"
        wrong = small_torch.changed((
            "    opt.step(loss)\n", f"""
    if opt.description.worker == 1 and not os.path.exists("{once}"):
        open("{once}", "w").close()
        raise ValueError("a mistake")
    opt.step(loss)
"""))
        run = harness.train(self.job, "--workers=2", *DISTURBED,
                            *small_torch.command(wrong))
        self.assertIn("ValueError: a mistake",
                      (run.dir / "worker-1.log").read_text())
        # Whoever looks at the terminal sees it, too.
        self.assertRegex(run.result.stdout,
                         "(?m)^worker 1 left: .*ValueError: a mistake")
        self.assertEqual(run.summary["weights_sha256"], self.calm)

    def test_a_loss_that_is_no_number_does_not_reach_the_weights(self):
        program = small_torch.changed((
            "    loss.backward()\n",
            "    if opt.epoch == 1: loss = loss * float('nan')\n"
            "    loss.backward()\n"))
        sets = harness.sets(["cluster.workers=1"])
        failed = harness.Run(self.job, *sets, *small_torch.command(program))
        self.assertEqual(failed.result.returncode, 1)
        self.assertIn("diverged: version 12, worker 0, mini-batch 12: ",
                      failed.result.stderr)
        self.assertIn("is nan in tensor 0.weight", failed.result.stderr)
        skipped = harness.train(
            self.job, *sets, "--set=sync.on_bad_gradient=SKIP",
            *small_torch.command(program))
        self.assertEqual(skipped.summary["gradients"]["rejected"], 2)
        self.assertEqual(skipped.summary["gradients"]["applied"], 23)


if __name__ == "__main__":
    harness.main()
