#!/usr/bin/python3 -B
"""Shards that share no folder write checkpoints to disks of their own. Recovery
and resuming find the parts where they were written."""

import json
import signal
import socket
import subprocess
import unittest

import harness
from by_hand import ByHand

JOB = """
checkpoint { every_updates: 10 }
delays { compute { constant { ms: 5 } } }
"""


class OwnDisksTest(unittest.TestCase):

    def start(self):
        """A run whose two shards have a disk each; shard 1 has no run folder."""
        self.disks = [harness.scratch(), harness.scratch()]
        run = ByHand(run_dir=True, job=JOB, start=["shard 0"],
                     flags=lambda name: [
                         f"--checkpoint-dir={self.disks[int(name[-1])]}"]
                     if name.startswith("shard") else [])
        self.addCleanup(run.__exit__)
        run.commands["shard 1"].remove(*run.folder)
        for name in run.commands:
            if name != "shard 0":
                run.start(name)
        return run

    def await_checkpoint(self, run, generation=1):
        return run.await_status(
            lambda s: s["generation"] == generation and
            s["checkpoints"]["newest_version"],
            f"a checkpoint of generation {generation}")

    def parts(self, shard):
        """The checkpoints of which there is a part on a shard's disk."""
        return sorted(self.disks[shard].glob(
            f"*/checkpoints/*/shard-{shard}.safetensors"))

    def kill_all(self, run):
        for name in run.commands:
            run.kill(name)

    def start_again(self, run):
        for name in run.commands:
            run.start(name, *["--resume"] * (name == "shard 0"))

    def test_a_killed_shard_and_a_killed_run_go_on_from_the_parts(self):
        run = self.start()
        status = self.await_checkpoint(run)
        folder = run.dir / "run"
        for checkpoint in (folder / "checkpoints").iterdir():
            self.assertLessEqual({f.name for f in checkpoint.iterdir()},
                                 {"manifest"})
        self.assertTrue(all(status["run_id"] in str(p) for s in (0, 1)
                            for p in self.parts(s)))
        run.kill("shard 1")
        run.start("shard 1")
        status = run.await_training(generation=2)
        self.assertGreaterEqual(status["recovery"]["restored_version"], 10)
        self.await_checkpoint(run, generation=2)
        self.kill_all(run)
        self.start_again(run)
        status = run.await_training(generation=3)
        self.assertGreaterEqual(status["recovery"]["restored_version"], 10)
        # More than are kept have been written.
        first = status["version"]
        run.await_status(lambda s: s["version"] > first + 50, "five more")
        told = harness.tool("inspect", folder, "--json")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertEqual(
            [(f["host"], f["here"]) for f in json.loads(told.stdout)["files"]],
            [(socket.gethostname(), True)] * 2)
        for shard in (0, 1):
            # `keep`, and the one that is being written.
            self.assertLessEqual(len(self.parts(shard)), 2 + 1)
        run.processes["shard 0"].send_signal(signal.SIGTERM)
        for name in run.commands:
            self.assertEqual(run.processes[name].wait(harness.TIMEOUT_S), 0,
                             run.log(name))
        ledger = harness.tool("ledger", folder)
        self.assertEqual(ledger.returncode, 0, ledger.stdout)

    def test_a_part_that_is_not_there_is_named_with_host_and_path(self):
        run = self.start()
        self.await_checkpoint(run)
        self.kill_all(run)
        self.disks[1].rename(self.disks[1].with_name("elsewhere"))
        self.disks[1].mkdir()
        self.start_again(run)
        self.assertEqual(
            run.processes["shard 0"].wait(harness.TIMEOUT_S), 1)
        self.assertRegex(
            run.log("shard 0"),
            f"{socket.gethostname()}:{self.disks[1]}/[^ ]*/shard-1.safetensors: "
            "is not on this host .*, expected shard 1's part of checkpoint 1-")
        told = harness.tool("inspect", run.dir / "run")
        self.assertIn("shard-1.safetensors, not on this host", told.stdout)
        export = harness.tool("export", run.dir / "run", run.dir / "weights")
        self.assertEqual(export.returncode, 1)
        self.assertIn("is not on this host", export.stderr)

    def test_a_folder_that_is_not_there_is_refused(self):
        job = harness.write_job(harness.LINEAR_JOB)
        result = subprocess.run(
            [harness.PS_SERVER, f"--job={job}", "--shard=1",
             "--listen=127.0.0.1:0", "--coordinator=127.0.0.1:1",
             "--checkpoint-dir=nowhere"],
            capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--checkpoint-dir: nowhere: is no folder, expected one on "
                      "this host", result.stderr)


if __name__ == "__main__":
    harness.main()
