#!/usr/bin/python3 -B
"""`sluice advise` finds the policy, K and rate that reach a target first, on
clusters whose answer is known by arithmetic, and writes what the user needs
next."""

import json
import re
import shlex
import unittest

import harness
from pictures import png_size, words

# Every mini-batch is the whole data set, without noise. So the time to a loss
# is the number of descent steps times the time per update.
JOB = """
name: "whole"
cluster { workers: 4 shards: 2 }
sync { policy: SYNC local_steps: 1 }
optimizer { learning_rate: 0.2 sgd { momentum: 0 } }
data {
  linear_regression { features: 31 train_samples: 2048 test_samples: 64 }
  batch_size: 2048
}
model { layer { dense { units: 1 } } }
stop { epochs: 2000 }
"""
CONSTANT = "delays={compute { constant { ms: 10 } }}"
ONE_SLOW = "delays={compute { constant { ms: 10 } } worker_factor: 20}"
TARGET = ["--target-loss", "0.001", "--evaluate-every", "0.5", "--seeds", "3"]


def advise(job, *args, status=0):
    """Runs the command. Returns its folder, and its output as JSON."""
    out = harness.scratch() / "advice"
    result = harness.tool("advise", job, "--out", out, "--json", *args)
    assert result.returncode == status, result.stderr
    return out, json.loads(result.stdout)


class AdviseTest(unittest.TestCase):

    def test_sync_loses_to_k_sync_where_one_worker_is_very_slow(self):
        job = harness.write_job(JOB)
        _, advice = advise(job, *TARGET, "--policies", "SYNC,K_SYNC",
                           "--k", "3", "--rates", "2", "--set", ONE_SLOW)
        first, second = advice["choices"]
        self.assertEqual(first["choice"], "K_SYNC, K 3")
        self.assertEqual(first["verdict"], "first")
        self.assertEqual(second["choice"], "SYNC (the job's)")
        self.assertEqual(second["verdict"], "behind")
        self.assertEqual(advice["recommended"]["choice"], "K_SYNC, K 3")

    def test_equal_workers_make_a_tie_with_sync(self):
        job = harness.write_job(JOB)
        _, advice = advise(job, *TARGET, "--set", CONSTANT, "--set",
                           "optimizer.learning_rate=0.4")
        named = [advice["recommended"]["choice"],
                 *advice["recommended"]["ties"]]
        self.assertIn("SYNC (the job's)", named)

    def test_what_is_recommended_can_be_pasted_and_is_accepted(self):
        text = JOB.replace("policy: SYNC", "policy: SYNC on_shortage: SHRINK")
        job = harness.write_job(text)
        out, advice = advise(job, *TARGET, "--set", ONE_SLOW, "--workers", "6")
        best = advice["recommended"]
        self.assertIn("on_shortage: SHRINK", best["sync_block"])
        pasted = re.sub(r"sync \{.*\}\n", best["sync_block"], text, count=1)
        pasted = pasted.replace("learning_rate: 0.2",
                                f"learning_rate: {best['learning_rate']}")
        for path in (harness.write_job(pasted), out / "job.textproto"):
            checked = harness.tool("check", path, "--workers", "6")
            self.assertEqual(checked.returncode, 0, checked.stderr)
            for field in re.findall(r"^  (\w+: \w+)$", best["sync_block"], re.M):
                self.assertIn(f"  {field}\n", checked.stdout)
        # Settings changed only for the simulation are not part of the advice.
        resolved = (out / "job.textproto").read_text()
        self.assertIn("every_epochs: 1\n", resolved)
        self.assertEqual(json.loads((out / "advice.json").read_text()), advice)

    def test_the_picture_has_every_choice(self):
        out, advice = advise(harness.write_job(JOB), *TARGET, "--set", CONSTANT,
                             "--policies", "SYNC,ASYNC,K_BATCH_ASYNC")
        text = " ".join(words(out / "advice.svg"))
        for choice in advice["choices"]:
            self.assertIn(choice["choice"], text)
        self.assertIn("virtual time, s", text)
        self.assertEqual(png_size(out / "advice.png")[0], 1600)

    def test_a_measured_run_tells_the_times(self):
        job = harness.write_job(JOB)
        run = harness.scratch() / "run"
        made = harness.tool("simulate", job, "--run-dir", run, "--set",
                            ONE_SLOW, "--set", "sync.policy=ASYNC",
                            "--set", "optimizer.learning_rate=0.01",
                            "--set", "stop.epochs=100")
        self.assertEqual(made.returncode, 0, made.stderr)
        asked = [*TARGET, "--policies", "SYNC,K_SYNC", "--k", "3",
                 "--compute-times"]
        _, measured = advise(job, *asked, run)
        _, told = advise(job, *asked[:-1], "--set", ONE_SLOW)
        # With constant times, the measured times are those of the job, worker
        # by worker.
        for mine, theirs in zip(measured["choices"], told["choices"],
                                strict=True):
            for key in ("choice", "learning_rate", "verdict", "times"):
                self.assertEqual(mine[key], theirs[key])
        result = harness.tool("advise", job, *asked, run / "job.textproto")
        self.assertEqual(result.returncode, 2)
        self.assertIn("job.textproto:1: expected a duration", result.stderr)

    def test_the_times_of_a_group_are_refused(self):
        job = harness.write_job(JOB)
        layers = ("model={layer {dense {units: 8}} layer {dense {units: 1}} "
                  "loss: MEAN_SQUARED_ERROR}")
        for group in ("pipeline_stages: 2", "slots: 2"):
            run = harness.scratch() / "run"
            made = harness.tool("simulate", job, "--run-dir", run, *harness.sets(
                [CONSTANT, layers, f"worker.group={{{group}}}",
                 "sync.policy=ASYNC", "optimizer.learning_rate=0.001",
                 "stop.epochs=10"]))
            self.assertEqual(made.returncode, 0, made.stderr)
            # Of another host, whose data are not here.
            text = (run / "job.textproto").read_text()
            self.assertIn("linear_regression", text)
            (run / "job.textproto").write_text(re.sub(
                r"linear_regression \{[^}]*\}",
                'idx { train_images: "/none" train_labels: "/none" }', text))
            result = harness.tool("advise", job, *TARGET, "--compute-times",
                                  run, "--out", harness.scratch() / "advice")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("its workers are groups (worker.group)",
                          result.stderr)

    def test_says_that_a_run_that_cancels_has_too_few_long_times(self):
        job = harness.write_job(JOB)
        for policy, said in (("{policy: K_SYNC k: 3}", True),
                             ("{policy: ASYNC}", False),
                             ("{policy: K_BATCH_ASYNC k: 2 "
                              "staleness {bound: 0 action: CANCEL}}", True)):
            run = harness.scratch() / "run"
            harness.tool("simulate", job, "--run-dir", run, "--set", CONSTANT,
                         "--set", f"sync={policy}",
                         "--set", "stop.epochs=30")
            result = harness.tool("advise", job, *TARGET, "--compute-times",
                                  run, "--policies", "SYNC",
                                  "--out", harness.scratch() / "advice")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("the longest times are missing" in result.stderr,
                             said, policy)

    def test_advice_that_cannot_be_written_leaves_no_older_job(self):
        out = harness.scratch() / "advice"
        (out / "advice.json" / "in the way").mkdir(parents=True)
        (out / "job.textproto").write_text("of last week")
        result = harness.tool("advise", harness.write_job(JOB), *TARGET,
                              "--set", CONSTANT, "--policies", "SYNC",
                              "--out", out)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("advice.json", result.stderr)
        self.assertIn("recommended: SYNC", result.stdout)
        self.assertNotIn("files in", result.stdout)
        self.assertFalse((out / "job.textproto").exists())

    def test_the_command_at_the_end_trains_the_job_that_was_asked_about(self):
        job = harness.write_job(JOB)
        strange = job.with_name("a job's.textproto")
        job.rename(strange)
        result = harness.tool(
            "advise", strange, *TARGET, "--policies=SYNC", "--set",
            CONSTANT, "--set", "limits.lease_s=7", "--workers=3", "--seed=5",
            "--out", harness.scratch() / "advice")
        self.assertEqual(result.returncode, 0, result.stderr)
        command = shlex.split(re.search(r"^\./sluice (train .*)$", result.stdout,
                                        re.M)[1])
        checked = harness.tool("check", *command[1:])
        self.assertEqual(checked.returncode, 0, checked.stderr)
        for field in ("workers: 3", "lease_s: 7", "seed: 5"):
            self.assertIn(f"{field}\n", checked.stdout)
        self.assertNotIn("delays", checked.stdout)

    def test_job_and_command_have_the_delays_of_the_job_file_alone(self):
        for own in ("", "delays { compute { constant { ms: 10 } } }"):
            job = harness.write_job(JOB + own)
            out = harness.scratch() / "advice"
            result = harness.tool(
                "advise", job, *TARGET, "--policies=SYNC", "--set",
                "delays.compute.constant.ms=20", "--set",
                "delays.latency.constant.ms=5", "--workers=3", "--out", out)
            self.assertEqual(result.returncode, 0, result.stderr)
            command = shlex.split(re.search(
                r"^\./sluice (train .*)$", result.stdout, re.M)[1])
            advised = (out / "job.textproto").read_text()
            self.assertNotIn("latency", advised)
            self.assertEqual("delays" in advised, bool(own))
            self.assertEqual("ms: 10\n" in advised, bool(own))
            by_file = harness.tool("check", out / "job.textproto")
            by_command = harness.tool("check", *command[1:])
            self.assertEqual(by_file.returncode, 0, by_file.stderr)
            self.assertEqual(by_file.stdout, by_command.stdout)

    def test_the_job_that_was_asked_about_is_not_replaced(self):
        job = harness.write_job(JOB)
        text = job.read_text()
        run = harness.train(job)
        for out, whose in ((job.parent, "which is the job it is for"),
                           (run.dir, "that of the run in the folder")):
            result = harness.tool("advise", job, *TARGET, "--set", CONSTANT,
                                  "--out", out)
            self.assertEqual(result.returncode, 2)
            self.assertIn(whose, result.stderr)
        self.assertEqual(job.read_text(), text)

    def test_a_job_that_evaluates_only_at_its_end_is_evaluated_as_asked(self):
        _, advice = advise(harness.write_job(JOB), *TARGET,
                           "--policies=SYNC", "--set", CONSTANT, "--set",
                           "evaluation.every_epochs=0")
        self.assertIn("SYNC", advice["recommended"]["choice"])

    def test_a_budget_that_is_used_up_leaves_what_was_not_tried(self):
        _, advice = advise(harness.write_job(JOB), *TARGET, "--set", CONSTANT,
                           "--budget", "0.001", status=1)
        self.assertIsNone(advice["recommended"])
        self.assertIn("first seed", advice["untried"])

    def test_a_target_that_nobody_reaches_is_no_advice(self):
        out, advice = advise(harness.write_job(JOB), "--target-loss", "-1",
                             "--set", CONSTANT, "--set", "stop.epochs=20",
                             status=1)
        self.assertIsNone(advice["recommended"])
        self.assertFalse((out / "job.textproto").exists())

    def test_without_gnuplot_the_advice_stands(self):
        out = harness.scratch() / "advice"
        result = harness.tool("advise", harness.write_job(JOB), *TARGET,
                              "--set", CONSTANT, "--policies", "SYNC",
                              "--gnuplot", "/nowhere", "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("recommended: SYNC", result.stdout)
        self.assertIn("gnuplot is not installed", result.stderr)
        self.assertTrue((out / "advice.gnuplot").exists())

    def test_what_cannot_be_asked_is_refused(self):
        job = harness.write_job(JOB)
        for args, said in (
                (("--set", CONSTANT), "one of --target-accuracy and"),
                (("--target-loss", "1"), "delays.compute: must be set"),
                (("--target-accuracy", "0.5", "--set", CONSTANT), "labels"),
                ((*TARGET, "--set", CONSTANT, "--policies", "SYNCH"),
                 "--policies: expected SYNC"),
                ((*TARGET, "--compute-times", "/nowhere"),
                 "there is no /nowhere"),
                ((*TARGET, "--compute-times", "x" * 300),
                 "there is no xxx")):
            result = harness.tool("advise", job, *args, "--out",
                                  harness.scratch() / "advice")
            self.assertEqual(result.returncode, 2, args)
            self.assertIn(said, result.stderr)
            self.assertEqual(result.stdout, "")  # Nothing was tried.


if __name__ == "__main__":
    harness.main()
