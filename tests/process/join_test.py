#!/usr/bin/python3 -B
"""A program that starts its own worker, by sluice.join: by hand and under
torchrun it takes part in a run as under `sluice train`."""

import json
import os
import subprocess
import sys
import unittest

import harness
import small_torch
from ledger import Ledger
from model_process_test import MEASURED, PROGRAM, write_job

SETS = [*MEASURED, *harness.sets(["cluster.workers=2"])]
# The evaluator runs it, too.
JOINING = """
import runpy
import sluice
sluice.join(%r, *%r, binary=%r)
runpy.run_path(%r, run_name="__main__")
"""


def environment(**variables):
    return {**os.environ, "PYTHONPATH": str(harness.ROOT / "python"),
            **variables}


def ended(*command, **variables):
    """A process that has ended, and what it printed."""
    return subprocess.run([*map(str, command)], capture_output=True, text=True,
                          timeout=harness.TIMEOUT_S, cwd=harness.scratch(),
                          env=environment(**variables))


def python(text, **variables):
    return ended(sys.executable, "-B", "-c", text, **variables)


class JoinTest(unittest.TestCase):

    def run_with(self, start_workers):
        """The summary of a run of two workers, which processes of
        start_workers(program) become: (command, variables) of each."""
        job = write_job()
        lead = f"127.0.0.1:{harness.reserve_port()}"
        folder = harness.scratch()
        flags = [f"--coordinator={lead}", *SETS]
        program = harness.scratch() / "joining.py"
        program.write_text(JOINING % (str(job), flags, str(harness.WORKER),
                                      str(PROGRAM)))
        own = [sys.executable, "-B", program]
        commands = {
            "ps_server": [harness.PS_SERVER, f"--job={job}", "--shard=0",
                          f"--listen={lead}", f"--run-dir={folder}", *SETS],
            "evaluator": [harness.EVALUATOR, f"--job={job}",
                          f"--run-dir={folder}", *flags, "--", *own]}
        environments = {"evaluator": environment()}
        for number, (command, variables) in enumerate(start_workers(program)):
            commands[f"joining-{number}"] = command
            environments[f"joining-{number}"] = environment(**variables)
        harness.run_together(commands, folder, environments)
        Ledger(folder / "commit_log").check(self)
        return json.loads((folder / "summary.json").read_text())

    def expected(self):
        return harness.train(write_job(), *SETS, "--", PROGRAM).summary

    def check_same(self, found):
        expected = self.expected()
        for field in "version", "weights_sha256", "test_loss":
            self.assertEqual(found[field], expected[field], field)

    def test_by_hand_it_takes_part_as_under_a_worker(self):
        own = [sys.executable, "-B"]
        self.check_same(self.run_with(lambda program: [
            ([*own, program], {"RANK": "0"}),
            ([*own, program], {"SLURM_PROCID": "1"})]))

    @unittest.skipUnless(hasattr(small_torch.torch(), "compile"),
                         "torchrun of PyTorch 1.13 fails under Python 3.11")
    def test_under_torchrun_it_takes_part_as_under_a_worker(self):
        self.check_same(self.run_with(lambda program: [
            ([sys.executable, "-m", "torch.distributed.run", "--standalone",
              "--nproc_per_node=2", program], {})]))

    def test_the_number_is_the_arguments_or_ranks_or_slurms(self):
        for argument, variables, number in [
                ("", {}, 0), ("", {"SLURM_PROCID": "5"}, 5),
                ("", {"RANK": "3", "SLURM_PROCID": "5"}, 3),
                (", worker=2", {"RANK": "3"}, 2)]:
            result = python("import sluice; sluice.join('job', "
                            f"binary='/bin/echo'{argument})", **variables)
            self.assertIn(f"--worker={number} ", result.stdout)

    def test_its_exit_status_and_messages_are_the_workers(self):
        result = python("import sluice; sluice.join('nowhere.textproto', "
                        f"binary={str(harness.WORKER)!r})")
        self.assertEqual(result.returncode, 2)
        self.assertIn("nowhere.textproto", result.stderr)

    def test_a_worker_that_is_not_there_is_named(self):
        result = python("import sluice; sluice.join('job', binary='no-worker')")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot start 'no-worker': No such file or directory",
                      result.stderr)

    def test_a_process_of_the_program_becomes_no_worker(self):
        # As those of a DataLoader that spawns them.
        program = harness.scratch() / "program.py"
        program.write_text("""
import subprocess, sys
import sluice
from sluice.model_process import Worker
sluice.join("job", binary="no-worker")
Worker()
subprocess.run([sys.executable, "-B", __file__])
""")
        result = ended(harness.WORKER, f"--job={write_job()}", "--worker=0",
                       "--coordinator=127.0.0.1:1", "--", sys.executable, "-B",
                       program)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no worker has started this program", result.stderr)


if __name__ == "__main__":
    harness.main()
