#!/usr/bin/python3 -B
"""A user's mistake gets an answer that says what was expected."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import unittest

import harness


class BadInputTest(unittest.TestCase):

    def refused(self, *args, status=2):
        result = harness.tool(*args)
        self.assertEqual(result.returncode, status,
                         result.stdout + result.stderr)
        return result.stderr

    def test_a_typo_is_answered_with_file_line_column_and_field(self):
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "batch_size: 32", "batchsize: 32"))
        line = 1 + harness.LINEAR_JOB[
            :harness.LINEAR_JOB.index("batch_size")].count("\n")
        message = self.refused("check", job)
        self.assertIn(f"job.textproto:{line}:", message)
        self.assertIn("batchsize", message)

    def test_all_bad_values_are_named_at_once(self):
        message = self.refused("check", harness.write_job(harness.LINEAR_JOB),
                               *harness.sets(["sync.policy=K_SYNC",
                                              "sync.k=9",
                                              "data.batch_size=0"]))
        self.assertRegex(message, r"sync\.k\b.*2.*9")
        self.assertRegex(message, r"data\.batch_size\b.*1.*0")

    def test_k_above_the_workers_is_refused_where_each_delivers_once(self):
        job = harness.write_job(harness.LINEAR_JOB)
        for policy in ("K_SYNC", "K_ASYNC"):
            message = self.refused("train", job, *harness.sets(
                [f"sync.policy={policy}", "sync.k=5"]))
            self.assertIn(f"sync.k: must be 1 to 2 (cluster.workers) under "
                          f"{policy}, is 5", message)

    def test_k_above_the_workers_runs_where_whoever_delivers_counts(self):
        for policy in ("K_BATCH_SYNC", "K_BATCH_ASYNC"):
            run = harness.train(
                harness.write_job(harness.LINEAR_JOB),
                *harness.sets([f"sync.policy={policy}", "sync.k=5"]))
            self.assertEqual(run.summary["gradients"]["applied"], 80)
            self.assertEqual(run.summary["version"], 80 / 5)

    def test_what_the_command_line_means_is_not_guessed(self):
        self.assertIn("argument was not expected: bogus\n",
                      self.refused("bogus", "--json"))
        job = harness.write_job(harness.LINEAR_JOB)
        for command in ("check", "chaos"):
            self.assertIn("--seed: expected a whole number from 0 to 2^64 - 1, "
                          "is -1", self.refused(command, job, "--seed=-1"))

    def test_a_damaged_summary_is_named(self):
        run = harness.train(harness.write_job(harness.LINEAR_JOB))
        summary = run.dir / "summary.json"
        said = f"{summary}: cannot be read, expected a JSON object"

        def check():
            for more in ((), ("--json",)):
                result = harness.tool("status", run.dir, *more)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertIn(said, result.stderr)
            result = harness.tool("ledger", run.dir)
            self.assertEqual(result.returncode, 1)
            self.assertIn(said, result.stdout)

        summary.write_text('{"version": ')
        check()
        summary.unlink()
        summary.mkdir()
        check()

    def test_a_run_that_left_no_summary_may_be_resumed(self):
        for sets, advice in (
                (["checkpoint.every_updates=10"],
                 "`sluice train JOB --resume {}` goes on"),
                ([], "has no checkpoint to go on from")):
            run = harness.train(harness.write_job(harness.LINEAR_JOB),
                                *harness.sets(sets))
            (run.dir / "summary.json").unlink()
            self.assertRegex(
                self.refused("status", run.dir, status=1),
                "has left no summary.json: .*" + advice.format(run.dir))

    def test_a_failed_run_that_left_no_summary_says_why_it_failed(self):
        run = harness.Run(harness.write_job(harness.LINEAR_JOB), *harness.sets(
            ["optimizer.learning_rate=1e6"]))
        self.assertEqual(run.result.returncode, 1)
        (run.dir / "summary.json").unlink()
        said = self.refused("status", run.dir, status=1)
        self.assertIn(run.result.stderr, said)
        self.assertRegex(said, "the run failed: diverged: ")

    def test_a_label_that_no_output_stands_for_is_named(self):
        outputs = harness.LENET.read_text().count("layer {") - 1
        self.assertRegex(
            self.refused("check", harness.LENET, "--set",
                         f"model.layer[{outputs}].dense.units=5"),
            r"the last layer must have 10 outputs or more, because sample \d+ "
            r"of .*labels.* has label 9; it has 5")

    def test_a_simulation_of_times_beyond_any_clock_says_so(self):
        job = harness.write_job(harness.LINEAR_JOB)
        for delays in ("compute { log_normal { median_ms: 5 sigma: 10 } }",
                       "compute { constant { ms: 1e9 } } worker_factor: [1e6]",
                       "compute { constant { ms: 10 } } "
                       "latency { log_normal { median_ms: 5 sigma: 10 } }"):
            result = harness.tool("simulate", job, "--timing-only",
                                  "--updates=200", f"--set=delays={{{delays}}}",
                                  "--set=limits.task_deadline_s=3e10",
                                  "--set=limits.start_timeout_s=3e10")
            self.assertEqual(result.returncode, 2)
            self.assertRegex(
                result.stderr, r"\Athe simulation reaches the end of virtual "
                r"time, 146 years, after update \d+: are the job's delays as "
                r"they should be\?\n\Z")

    def test_a_missing_data_file_is_named(self):
        message = self.refused("check", harness.LENET, "--set",
                               "data.idx.train_images=/nowhere/images.gz")
        self.assertIn("/nowhere/images.gz", message)

    def test_a_precision_that_only_gpus_have_is_refused_on_the_cpu(self):
        message = self.refused("train", harness.write_job(harness.LINEAR_JOB),
                               "--set", "worker.precision=BF16")
        self.assertIn("worker.precision: must be FP32 with worker.device CPU, "
                      "is BF16: only GPUs have others", message)

    def test_a_used_run_folder_is_refused(self):
        folder = harness.scratch()
        (folder / "something").write_text("here")
        job = harness.write_job(harness.LINEAR_JOB)
        result = harness.tool("train", job, "--run-dir", folder)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(str(folder), result.stderr)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            result = subprocess.run(
                [harness.PS_SERVER, "--shard=0", f"--listen={address}",
                 f"--job={harness.write_job(harness.LINEAR_JOB)}"],
                capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(address, result.stderr)

    def test_two_daemons_with_different_jobs_name_the_field(self):
        port = harness.reserve_port()
        address = f"127.0.0.1:{port}"
        job = harness.write_job(harness.LINEAR_JOB)
        server = subprocess.Popen(
            [harness.PS_SERVER, "--shard=0", f"--listen={address}",
             f"--job={job}"], stderr=subprocess.DEVNULL)
        try:
            other = subprocess.run(
                [harness.WORKER, "--worker=0", f"--job={job}",
                 f"--coordinator={address}", "--set", "data.batch_size=16"],
                capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        finally:
            server.kill()
            server.wait()
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("data.batch_size", other.stderr)
        self.assertIn("32", other.stderr)
        self.assertIn("16", other.stderr)


class EndTest(unittest.TestCase):

    def start(self, *args):
        folder = harness.scratch() / "run"
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "seconds: 600"))
        process = subprocess.Popen(
            [harness.TOOL, "train", job, "--run-dir", folder, *args],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True)
        metrics = folder / "metrics.jsonl"
        harness.wait_until(
            lambda: metrics.exists() and metrics.read_text().count("\n") > 1,
            "two lines of metrics", process)
        return process, folder

    def status(self, folder):
        result = harness.tool("status", folder, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def nobody_left(self, folder):
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if str(folder).encode() in (entry / "cmdline").read_bytes():
                    self.fail(f"process {entry.name} is still there")
            except (OSError, NotADirectoryError):
                continue

    def test_ctrl_c_stops_cleanly(self):
        process, folder = self.start()
        os.killpg(process.pid, signal.SIGINT)  # As a terminal does.
        output, _ = process.communicate(timeout=harness.TIMEOUT_S)
        self.assertTrue((folder / "summary.json").exists(), output)
        self.assertTrue((folder / "weights.safetensors").exists(), output)
        # The run is over, so its status is its summary.
        self.assertIn("weights_sha256", self.status(folder))
        self.nobody_left(folder)

    def kill_child(self, folder, name):
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except (OSError, NotADirectoryError):
                continue
            text = b" ".join(words).decode()
            if str(folder) in text and name in text and "train" not in words[
                    1:2][0].decode():
                os.kill(int(entry.name), signal.SIGKILL)
                return
        self.fail(f"no process {name}")

    def test_the_run_survives_the_death_of_a_worker(self):
        process, folder = self.start()
        self.kill_child(folder, "--worker=1")
        # It is started again, and the others go on.
        harness.wait_until(
            lambda: self.status(folder)["worker"][1]["incarnation"] > 1,
            "worker 1 to begin another life", process)
        version = self.status(folder)["version"]
        harness.wait_until(lambda: self.status(folder)["version"] > version,
                           "a further version", process)
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=harness.TIMEOUT_S)
        self.assertEqual(process.returncode, 0, output)
        self.nobody_left(folder)


if __name__ == "__main__":
    harness.main()
