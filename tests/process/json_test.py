#!/usr/bin/python3 -B
"""Every command of the tool has --json: it prints one JSON value on stdout and
nothing else, and ends as it does without."""

import json
import re
import shutil
import signal
import subprocess
import unittest

import harness

NEEDS_DELAYS = harness.sets(["delays.compute.constant.ms=1"])


class JsonTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.job = harness.write_job(harness.LINEAR_JOB)
        cls.folder = harness.train(cls.job, *harness.sets(
            ["checkpoint.every_updates=10"])).dir
        cls.certs = harness.scratch() / "certs"

    def calls(self):
        """By command: its arguments, and the exit status. More than one call
        of a command has a word after the command's name."""
        job, run, new = self.job, self.folder, harness.scratch
        return {
            "train": ([job, "--run-dir", new() / "run"], 0),
            "train, bad": ([job, "--set", "sync.k=x"], 2),
            "train, failed": ([job, "--run-dir", new() / "run", *harness.sets(
                ["optimizer.learning_rate=1e6"])], 1),
            "check": ([job], 0),
            "doctor": ([], None),  # As the machine is.
            "status": ([run], 0),
            "stop": ([run], 0),
            "eval": ([run], 0),
            "inspect": ([run], 0),
            "export": ([run, new() / "weights.safetensors"], 0),
            "simulate": ([job, *NEEDS_DELAYS, "--run-dir", new() / "run"], 0),
            "simulate, times": ([job, *NEEDS_DELAYS, "--timing-only",
                                 "--precision=0.1"], 0),
            "advise": ([job, *NEEDS_DELAYS, "--target-loss=1", "--policies=SYNC",
                        "--rates=1", "--seeds=1", "--out", new()], 0),
            "plot": ([run, "--out", new()], 0),
            "replay": ([run], 0),
            "ledger": ([run], 0),
            "goodput": ([run], 0),
            "export-tensorboard": ([run], 0),
            "chaos": ([job, "--kills=0", "--stops=0", "--cuts=0", "--run-dir",
                       new() / "run", *harness.sets(
                           ["checkpoint.every_updates=10"])], 0),
            "certs": ([self.certs, "--job=linear", "--hosts=localhost",
                       "--replace"], 0),
            "certs, again": ([self.certs, "--renew"], 0),
            "certs, no more": ([self.certs, f"--revoke={self.certs}/worker/"
                                "tls.crt"], 0),
            "deploy": (["kubernetes", job, "--image=sluice"], 0),
        }

    def commands(self):
        """As --help lists them."""
        listed = harness.tool("--help").stdout.partition("Subcommands:")[2]
        return set(re.findall(r"^  ([a-z-]+)  ", listed, re.M))

    def test_each_command_prints_one_value_and_ends_as_without(self):
        # checkpoints_test asks a run that goes on for a checkpoint.
        self.assertEqual({name.partition(",")[0] for name in self.calls()},
                         self.commands() - {"ui", "checkpoint"})
        for name, (plain, status) in self.calls().items():
            again = self.calls()[name][0]  # With new folders.
            command = name.partition(",")[0]
            with self.subTest(name):
                without = harness.tool(command, *plain)
                result = harness.tool(command, *again, "--json")
                self.assertEqual(result.returncode, without.returncode,
                                 result.stderr + without.stderr)
                if status is not None:
                    self.assertEqual(result.returncode, status, result.stderr)
                if status == 2:
                    self.assertEqual(result.stdout, "")
                    continue
                self.assertIsInstance(json.loads(result.stdout), (dict, list))

    def test_what_cannot_be_written_is_no_success(self):
        for command, *args in [("check", self.job), ("ledger", self.folder),
                               ("--version",)]:
            for more in ([], ["--json"])[:1 if command[0] == "-" else 2]:
                with open("/dev/full", "w", encoding="utf-8") as full:
                    result = subprocess.run(
                        [harness.TOOL, command, *args, *more], stdout=full,
                        stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(result.returncode, 1, (command, more))
                self.assertEqual(result.stderr,
                                 "stdout: not all of it could be written\n")
        # Whoever closes a pipe has read enough.
        with subprocess.Popen([harness.TOOL, "check", self.job],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"")
            self.assertEqual(process.wait(), 0)

    def test_bytes_of_a_path_that_are_no_utf8_are_replaced(self):
        odd = harness.scratch() / "x\udcff"
        run, certs = odd / "run", odd / "certs"
        shutil.copytree(self.folder, run)
        for command, *args in [
                ("export", run, odd / "weights.safetensors"),
                ("plot", run, "--out", odd),
                ("export-tensorboard", run),
                ("simulate", self.job, *NEEDS_DELAYS, "--run-dir", odd / "new"),
                ("advise", self.job, *NEEDS_DELAYS, "--target-loss=1",
                 "--policies=SYNC", "--rates=1", "--seeds=1", "--out", odd),
                ("certs", certs, "--job=linear", "--hosts=localhost"),
                ("certs", certs, "--renew")]:
            with self.subTest(command):
                result = harness.tool(command, *args, "--json")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("x\ufffd", str(json.loads(result.stdout)))

    def test_ui_prints_where_it_is_and_goes_on(self):
        with subprocess.Popen([harness.TOOL, "ui", self.folder, "--json"],
                              stdout=subprocess.PIPE, text=True) as process:
            said = json.loads(process.stdout.readline())
            self.assertRegex(said["url"], r"^http://127.0.0.1:\d+/#[0-9a-f]+$")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.stdout.read(), "")


if __name__ == "__main__":
    harness.main()
