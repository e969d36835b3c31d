#!/usr/bin/python3 -B
"""Whatever is sent to the ports of a run, the sender is told what was expected
and what was found, and the run goes on."""

import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import unittest

import cluster
import harness
import ledger
import raw_grpc
from raw_grpc import field

PUSH = "/sluice.proto.Exchange/Push"
PULL = "/sluice.proto.Exchange/Pull"
SESSION = "/sluice.proto.Coordinator/Session"


class RefusalsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "seconds: 600"))
        cls.run_ = cluster.Training(job)
        cls.run_.await_version(5)
        cls.lead, cls.shard1 = cls.addresses()

    @classmethod
    def tearDownClass(cls):
        """After all tests the run succeeds, with balanced books."""
        with cls.run_ as run:
            run.interrupt()
            output = run.end()
            assert run.process.returncode == 0, output
            ledger.Ledger(run.dir / "commit_log").check(cls())

    @classmethod
    def addresses(cls):
        """The shards' addresses, which are written during the training once
        all have joined."""
        def named():
            lines = (cls.run_.dir / "addresses").read_text().splitlines()
            return dict(line.rsplit(" ", 1) for line in lines)
        harness.wait_until(lambda: "shard 1" in named(), "the shards' addresses")
        return named()["coordinator"], named()["shard 1"]

    def tearDown(self):
        """Checks that the same daemons are still running."""
        status = self.run_.status()
        self.run_.await_version(status["version"] + 5)
        for part in status["worker"] + status["shard"]:
            self.assertNotIn(part["state"], ("suspect", "dead"))
        self.assertEqual([w["incarnation"] for w in status["worker"]], [1, 1])

    def daemon(self, binary, *args):
        """The output of another daemon with the run's job until it exits."""
        result = subprocess.run(
            [binary, f"--job={self.run_.dir}/job.textproto", *args],
            capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        self.assertNotEqual(result.returncode, 0)
        return result.stderr.splitlines()[-1]

    def worker(self, number, address, *args):
        return self.daemon(harness.WORKER, f"--worker={number}",
                           f"--coordinator={address}", *args)

    def test_another_job_is_refused_and_the_field_named(self):
        self.assertRegex(self.worker(5, self.lead, "--set", "seed=7"),
                         "another job than the coordinator's: seed: 7 here, 1 there")

    def test_a_worker_number_that_is_taken_is_refused(self):
        self.assertRegex(self.worker(0, self.lead),
                         r"worker 0: taken by \S+:\d+, which is connected")

    def test_a_shard_number_that_is_taken_is_refused(self):
        self.assertRegex(
            self.daemon(harness.PS_SERVER, "--shard=1",
                        "--listen=127.0.0.1:0", f"--coordinator={self.lead}"),
            r"shard 1: taken by \S+:\d+, which is connected")

    def test_a_shard_number_that_the_job_does_not_have_is_refused(self):
        self.assertIn("--shard: must be 0 to 1 (cluster.shards - 1), is 5",
                      self.daemon(harness.PS_SERVER, "--shard=5",
                                  "--listen=127.0.0.1:0",
                                  f"--coordinator={self.lead}"))

    def test_a_second_evaluator_is_refused(self):
        self.assertIn("evaluator: taken by", self.daemon(
            harness.EVALUATOR, f"--coordinator={self.lead}"))

    def test_a_shard_that_is_taken_for_the_coordinator_is_named(self):
        self.assertRegex(self.worker(5, self.shard1),
                         f"coordinator at {self.shard1}: .*is not the lead")
        for command in "status", "checkpoint":
            done = harness.tool(command, self.shard1)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr,
                             f"{self.shard1}: .*is not the lead of a run")

    def test_a_dead_run_does_not_act_on_the_one_at_its_address(self):
        """The commands name it as another run, and train --resume goes on
        with the dead one."""
        with tempfile.TemporaryDirectory() as folder:
            dead = pathlib.Path(folder) / "run"
            shutil.copytree(self.run_.dir, dead)
            (dead / "addresses").write_text(
                f"coordinator {self.lead}\nrun dead-run\n")
            for command in "status", "checkpoint":
                done = harness.tool(command, str(dead))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(
                    done.stderr, f"{dead}: another run, .*, answers where run "
                    "dead-run listened")
            done = harness.tool("train", str(dead / "job.textproto"),
                                  "--resume", str(dead))
            self.assertNotIn("has not ended", done.stderr)
            self.assertIn("no whole checkpoint to go on from", done.stderr)

    def test_garbage_bytes_harm_nobody(self):
        noise = random.Random(1)
        for address in (self.lead, self.shard1):
            host, port = address.split(":")
            for garbage in (b"GET / HTTP/1.1\r\n\r\n", noise.randbytes(100000),
                            raw_grpc.PREFACE + b"\xff" * 1000,
                            b"\x16\x03\x01\x02\x00\x01\x00"):
                with socket.create_connection((host, int(port))) as s:
                    try:
                        s.sendall(garbage)
                    except OSError:
                        pass  # A peer that hangs up has answered too.
        # The same inside a well-formed call.
        for address, method in ((self.lead, SESSION), (self.lead, PUSH),
                                (self.shard1, PUSH), (self.shard1, PULL)):
            answer = raw_grpc.call(address, method, b"\xff" * 64)
            self.assertRegex(answer, r"grpc-status[^\d]\d")
            self.assertNotRegex(answer, r"grpc-status[^\d]0")

    def test_a_message_larger_than_allowed_is_refused(self):
        for address, method in ((self.lead, SESSION), (self.lead, PUSH),
                                (self.shard1, PUSH)):
            self.assertIn("(8388608 vs. 6422528)", raw_grpc.call(
                address, method, bytes(8 << 20)))

    def chunk(self, generation):
        key = b"".join(field(n, v) for n, v in (
            (1, generation), (2, 0), (3, 1), (4, 1000000)))
        return (field(1, key) + field(2, b"no shard's grant") + field(3, 0) +
                raw_grpc.fixed64(4, 0) + field(5, 1) + field(15, b"\0" * 4096))

    def test_a_push_of_another_generation_is_refused(self):
        for address in (self.lead, self.shard1):
            self.assertIn("is of generation 9, expected 1", raw_grpc.call(
                address, PUSH, self.chunk(generation=9)))

    def test_a_pull_of_another_generation_is_refused(self):
        self.assertIn("the pull is of generation 9, expected 1", raw_grpc.call(
            self.shard1, PULL, field(1, 9) + field(5, 1)))

    def test_an_ungranted_push_is_refused(self):
        self.assertIn("has no grant", raw_grpc.call(
            self.shard1, PUSH, self.chunk(generation=1)))

    def test_a_session_that_does_not_begin_with_a_join_is_refused(self):
        self.assertIn("the first message must be a Join", raw_grpc.call(
            self.lead, SESSION, field(4, b"")))


if __name__ == "__main__":
    harness.main()
