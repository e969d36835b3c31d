#!/usr/bin/python3 -B
"""A run writes checkpoints while it trains. They are whole and of the versions
that it names, and training goes on even if writing them fails."""

import json
import re
import resource
import signal
import struct
import subprocess
import unittest

import cluster
import harness

# 40 updates of 20 ms, each of two mini-batches. Adam has two arrays of state.
JOB = harness.LINEAR_JOB.replace("sgd { momentum: 0.5 }", "adam {}") + """
delays { compute { constant { ms: 20 } } }
"""


def versions(folder):
    """The versions that have a checkpoint folder."""
    found = [p.name.split("-") for p in (folder / "checkpoints").glob("*")]
    assert all(generation == "1" for generation, _ in found), found
    return sorted(int(version) for _, version in found)


def tensors(path):
    """Name -> bytes of a .safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    return {name: data[8 + length + entry["data_offsets"][0]:
                       8 + length + entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}


class CheckpointsTest(unittest.TestCase):

    def exported(self, checkpoint):
        out = harness.scratch() / "out.safetensors"
        result = harness.tool("export", checkpoint, out)
        self.assertEqual(result.returncode, 0, result.stderr)
        return tensors(out)

    def test_what_is_written_are_the_weights_of_the_version(self):
        job = harness.write_job(JOB)
        run = harness.train(job, *harness.sets(
            ["checkpoint.every_updates=10", "checkpoint.keep=9"]))
        # The first is always begun, and the last is always written. One between
        # them may be late.
        found = versions(run.dir)
        self.assertEqual([found[0], found[-1]], [10, 40])
        self.assertLessEqual(set(found), {10, 20, 30, 40})
        checkpoints = run.summary["checkpoints"]
        self.assertEqual(checkpoints["newest_version"], 40)
        self.assertEqual(checkpoints["written"], len(found))
        self.assertEqual(checkpoints["failed"], 0)
        self.assertIn(f"checkpoints: {len(found)} written, the newest of "
                      "version 40", run.result.stdout)
        self.assertEqual(self.exported(run.dir / "checkpoints/1-40"),
                         tensors(run.dir / "weights.safetensors"))
        shorter = harness.train(job, *harness.sets(["stop.updates=10"]))
        self.assertNotIn("checkpoints:", shorter.result.stdout)
        self.assertIsNone(shorter.summary["checkpoints"])
        self.assertFalse((shorter.dir / "checkpoints").exists())
        self.assertEqual(self.exported(run.dir / "checkpoints/1-10"),
                         tensors(shorter.dir / "weights.safetensors"))

    def test_inspect_finds_the_newest_whole_with_its_state_and_place(self):
        run = harness.train(harness.write_job(JOB), *harness.sets(
            ["checkpoint.every_updates=10", "checkpoint.keep=1"]))
        self.assertEqual(versions(run.dir), [40])
        result = harness.tool("inspect", run.dir, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        told = json.loads(result.stdout)
        self.assertEqual(told["version"], 40)
        self.assertEqual(told["samples_applied"], 2 * 1280)
        self.assertEqual(told["low_water_mark"], 80)
        self.assertEqual(told["arrays"], ["weights", "mean", "square"])

    def test_they_may_be_written_by_time(self):
        run = harness.train(harness.write_job(JOB), *harness.sets(
            ["checkpoint.every_s=0.2"]))
        self.assertGreaterEqual(run.summary["checkpoints"]["written"], 2)
        self.assertEqual(versions(run.dir)[-1], 40)

    def test_ctrl_c_leaves_a_checkpoint_of_the_last_version(self):
        job = harness.write_job(JOB.replace("epochs: 2", "seconds: 600"))
        with cluster.Training(job, *harness.sets(
                ["checkpoint.every_s=500"])) as run:
            run.await_version(3)
            run.interrupt()
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertEqual(versions(run.dir), [run.summary["version"]])
            self.assertEqual(
                self.exported(run.dir), tensors(run.dir / "weights.safetensors"))

    def test_a_full_disk_fails_checkpoints_and_training_goes_on(self):
        job = harness.write_job(JOB.replace("epochs: 2", "seconds: 600"))
        with cluster.Training(job, *harness.sets(
                ["checkpoint.every_updates=5"])) as run:
            run.await_version(1)
            shard = run.pids()["ps_server-1"]
            _, most = resource.prlimit(shard, resource.RLIMIT_FSIZE)
            resource.prlimit(shard, resource.RLIMIT_FSIZE, (256, most))
            failed = run.await_status(
                lambda s: s["checkpoints"]["failed"] > 0, "one that failed")
            self.assertIn("shard-1.safetensors",
                          failed["checkpoints"]["last_error"])
            self.assertIn("File too large", failed["checkpoints"]["last_error"])
            self.assertIn("the last checkpoint that failed: version",
                          harness.tool("status", run.dir).stdout)
            run.await_version(failed["version"] + 10)
            resource.prlimit(shard, resource.RLIMIT_FSIZE, (most, most))
            run.await_status(
                lambda s: (s["checkpoints"]["newest_version"] or 0) >
                failed["version"], "one that is whole again")
            run.interrupt()
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertRegex(output, r"checkpoints: \d+ written, .* failed")
            self.assertRegex(
                output, "the last checkpoint that failed: version .*shard 1: "
                ".*File too large")
            self.assertRegex(run.log("ps_server-0"),
                             'event=checkpoint_failed version=.*shard 1: .*File '
                             'too large')
            # Nothing is left of the failed ones.
            left = versions(run.dir)
            self.assertLessEqual(len(left), 2)
            for version in left:
                result = harness.tool("inspect",
                                      run.dir / f"checkpoints/1-{version}")
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_one_is_written_when_somebody_asks_for_it(self):
        job = harness.write_job(JOB.replace("epochs: 2", "seconds: 600"))
        with cluster.Training(
                job, *harness.sets(
                    ["checkpoint.every_updates=1000000"])) as run:
            run.await_version(1)
            asked = harness.tool("checkpoint", run.dir, "--json")
            self.assertEqual(asked.returncode, 0, asked.stderr)
            version = json.loads(asked.stdout)["version"]
            self.assertEqual(versions(run.dir), [version])
            self.assertRegex(
                harness.tool("inspect",
                             run.dir / f"checkpoints/1-{version}").stdout,
                rf"version +{version} of generation 1")
            shard = run.pids()["ps_server-1"]
            _, most = resource.prlimit(shard, resource.RLIMIT_FSIZE)
            resource.prlimit(shard, resource.RLIMIT_FSIZE, (256, most))
            failed = harness.tool("checkpoint", run.dir)
            self.assertEqual(failed.returncode, 1, failed.stdout)
            self.assertRegex(failed.stderr,
                             rf"^{re.escape(str(run.dir))}: version \d+: "
                             "shard 1: .*File too large")
            resource.prlimit(shard, resource.RLIMIT_FSIZE, (most, most))
            self.assertRegex(harness.tool("checkpoint", run.dir).stdout,
                             r"^checkpoint of version \d+ is written\n$")
            run.interrupt()
            run.end()

    def test_a_lead_that_is_held_up_is_waited_for(self):
        """By `checkpoint`, and then by `stop`: each has been answered before."""
        job = harness.write_job(JOB.replace("epochs: 2", "seconds: 600"))
        with cluster.Training(
                job, *harness.sets(["checkpoint.every_updates=1000000",
                                    "limits.lease_s=600"])) as run:
            run.await_version(1)
            for command in "checkpoint", "stop":
                with self.subTest(command):
                    # Until it goes on there is no further version.
                    run.signal("ps_server-1", signal.SIGSTOP)
                    asked = subprocess.Popen(
                        [harness.TOOL, command, run.dir], text=True,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                    self.assertRegex(asked.stderr.readline(),
                                     rf"^{command}: .* s, version \d+"
                                     r"(, waiting for .*)?\n$")
                    run.signal("ps_server-0", signal.SIGSTOP)
                    # The second begins after a look of `command` has: that one,
                    # too, is not answered.
                    for _ in range(2):
                        unanswered = harness.tool("status", run.dir)
                        self.assertIn("has not answered within",
                                      unanswered.stderr)
                    self.assertIsNone(asked.poll())
                    run.signal("ps_server-0", signal.SIGCONT)
                    run.signal("ps_server-1", signal.SIGCONT)
                    said, error = asked.communicate(timeout=harness.TIMEOUT_S)
                    self.assertEqual(asked.returncode, 0, error)
                    self.assertIn("version", said)
            run.end()

    def test_who_asks_for_one_where_there_can_be_none_is_told_why(self):
        job = harness.write_job(JOB.replace("epochs: 2", "seconds: 600"))
        with cluster.Training(job) as run:
            run.await_version(1)
            refused = harness.tool("checkpoint", run.dir)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("checkpoint: the job has none", refused.stderr)
            run.interrupt()
            run.end()
            over = harness.tool("checkpoint", run.dir)
            self.assertEqual(over.returncode, 1)
            self.assertEqual(
                over.stderr,
                f"{run.dir}: the run is over: interrupted by the user\n")
        for wrong in "nowhere", harness.scratch():
            self.assertIn(harness.tool("checkpoint", wrong).returncode, (1, 2))

    def test_shards_that_write_elsewhere_are_found_out(self):
        elsewhere = harness.scratch()
        folder, summary = harness.run_by_hand(
            harness.write_job(JOB),
            ["ps_server-0", "ps_server-1", "worker-0", "worker-1", "evaluator"],
            ["checkpoint.every_updates=10"],
            run_dirs={"ps_server-1": elsewhere})
        checkpoints = summary["checkpoints"]
        self.assertEqual(summary["version"], 40)
        self.assertEqual(checkpoints["written"], 0)
        self.assertIsNone(checkpoints["newest_version"])
        self.assertGreaterEqual(checkpoints["failed"], 1)
        self.assertIn(f"{folder}/checkpoints/1-40/shard-1.safetensors",
                      checkpoints["last_error"])
        self.assertIn("the run folder must be one that all shards share",
                      checkpoints["last_error"])
        self.assertEqual(versions(folder), [])

    def test_a_shard_without_a_run_folder_is_refused(self):
        for shard in 0, 1:
            result = subprocess.run(
                [harness.PS_SERVER, f"--shard={shard}",
                 f"--job={harness.write_job(JOB)}", "--listen=127.0.0.1:0",
                 "--coordinator=127.0.0.1:1",
                 *harness.sets(["checkpoint.every_s=60"])],
                capture_output=True, text=True, timeout=harness.TIMEOUT_S)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("checkpoint: needs the run folder, one that all "
                          "shards share: give --run-dir or output.run_dir",
                          result.stderr)


if __name__ == "__main__":
    harness.main()
