#!/usr/bin/python3 -B
"""Workers without a number of their own (--worker=any): the lead gives each the
lowest that no living process has."""

import json
import re
import subprocess
import unittest

import harness
import tls_run

SETS = ["cluster.workers=3", "limits.lease_s=1",
        "delays.compute.constant.ms=20"]


class AnyNumber(tls_run.TlsRun):
    """Three such workers, each with the certificate of a worker."""

    def __init__(self, sets=(), **kwargs):
        super().__init__(tls_run.certs(harness.scratch()), workers=3,
                         any_number=True, sets=[*SETS, *sets], **kwargs)

    def numbers(self, name):
        """Those that the processes with this log were given, in order."""
        return [int(number) for number in re.findall(
            r"event=welcome worker=(\d+)", self.log(name))]

    def await_numbers(self, name, count):
        return harness.wait_until(
            lambda: len(self.numbers(name)) == count and self.numbers(name),
            f"{name} to be given {count} numbers", self.processes[name])

    def end(self):
        """The run's summary, once every process has ended well."""
        for name, process in self.processes.items():
            if process.wait(harness.TIMEOUT_S) != 0:
                raise AssertionError(f"{name}: {self.log(name)}")
        return json.loads((self.dir / "run/summary.json").read_text())


class AnyNumberTest(unittest.TestCase):

    def ended(self, run, *flags):
        """What a worker says that is refused, and its exit status."""
        result = subprocess.run(
            [*run.commands["worker 0"], *flags], stderr=subprocess.PIPE,
            text=True, timeout=harness.TIMEOUT_S)
        return result.returncode, result.stderr

    def test_one_that_is_killed_and_started_again_changes_no_bits(self):
        stop = "stop={ updates: 150 }"
        with AnyNumber([stop], run_dir=True) as run:
            run.await_training()
            numbers = [run.await_numbers(f"worker {i}", 1)[0] for i in range(3)]
            self.assertEqual(sorted(numbers), [0, 1, 2])
            run.kill("worker 1")
            run.start("worker 1")
            # That of the process that was killed is the only one.
            self.assertEqual(run.await_numbers("worker 1", 2),
                             [numbers[1]] * 2)
            found = run.end()
        numbered = harness.train_by_hand(
            run.job, ["ps_server-0", "ps_server-1", "worker-0", "worker-1",
                      "worker-2", "evaluator"], [*SETS, stop])
        self.assertEqual(found["version"], 150)
        self.assertEqual(found["weights_sha256"], numbered["weights_sha256"])

    def test_after_a_recovery_each_has_the_number_it_had(self):
        with AnyNumber(run_dir=True, job="checkpoint { every_updates: 5 }"
                       ) as run:
            run.await_training()
            before = [run.await_numbers(f"worker {i}", 1)[0] for i in range(3)]
            run.kill("shard 0")
            run.start("shard 0", "--resume")
            run.await_training(generation=2)
            for i in range(3):
                self.assertEqual(run.await_numbers(f"worker {i}", 2),
                                 [before[i]] * 2)

    def test_one_too_many_is_told_how_many_there_may_be(self):
        with AnyNumber() as run:
            run.await_training()
            status, said = self.ended(run)
            self.assertEqual(status, 1, said)
            self.assertRegex(said, (
                r"no number is left: the job takes at most 3 workers "
                r"\(cluster.workers is 3, cluster.max_workers 0\), and 3 live"))

    def test_what_depends_on_the_number_is_refused_and_named(self):
        with AnyNumber(start=["shard 0"]) as run:
            for flags, field in [
                    (["--set", "data.sharding=STATIC"], "data.sharding"),
                    (["--set", "worker={ gpus: [0, 1] }"], "worker.gpus"),
                    ([f"--timeline={run.dir / 'timeline'}"], "--timeline")]:
                with self.subTest(field=field):
                    status, said = self.ended(run, *flags)
                    self.assertEqual(status, 2, said)
                    self.assertIn(f'error="{field}: ', said)
                    self.assertIn("--worker=N instead of --worker=any", said)

    def test_what_is_no_number_is_refused(self):
        for value in "all", "-1", "1.5", "":
            with self.subTest(value=value):
                result = subprocess.run(
                    [harness.WORKER, "--job=job", f"--worker={value}"],
                    capture_output=True, text=True, timeout=harness.TIMEOUT_S)
                self.assertEqual(result.returncode, 2)
                self.assertIn("--worker", result.stderr)


if __name__ == "__main__":
    harness.main()
