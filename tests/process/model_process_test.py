#!/usr/bin/python3 -B
"""Workers whose gradients a model process computes: SYNC gives the same bits
for any number of workers and shards, and after the death of a process."""

import hashlib
import json
import os
import pathlib
import signal
import struct
import unittest

import cluster
import harness
from ledger import Ledger

FEATURES = 40  # Of 41 weights two shards hold ranges of 32 and 9.
PROGRAM = harness.ROOT / "worker/external/testing/linear_model.py"
JOB = """
name: "external"
sync { policy: SYNC gradients_per_update: 2 }
optimizer { learning_rate: 0.02 sgd { momentum: 0.5 } }
data { external { train_samples: 100 } batch_size: 8 }
model {
  external {
    tensor { name: "linear.weight" shape: 1 shape: %d kind: WEIGHT }
    tensor { name: "linear.bias" shape: 1 kind: BIAS }
  }
  init_from: "%s"
}
checkpoint { every_updates: 1000 }
evaluation { enabled: false }
limits { lease_s: 2 }
stop { updates: %d }
"""


def write_weights(path):
    """A .safetensors file: version 0 of the job."""
    header = json.dumps({
        "linear.weight": {"dtype": "F32", "shape": [1, FEATURES],
                          "data_offsets": [0, 4 * FEATURES]},
        "linear.bias": {"dtype": "F32", "shape": [1],
                        "data_offsets": [4 * FEATURES, 4 * FEATURES + 4]},
    }).encode()
    weights = [(j % 7 - 3) / 8 for j in range(FEATURES + 1)]
    path.write_bytes(struct.pack("<Q", len(header)) + header +
                     struct.pack(f"<{len(weights)}f", *weights))


def write_job(updates=20):
    weights = harness.scratch() / "weights.safetensors"
    write_weights(weights)
    return harness.write_job(JOB % (FEATURES, weights, updates))


def weights_sha256(run_dir):
    """Of the floats of the run's last version."""
    path = harness.scratch() / "last.safetensors"
    exported = harness.tool("export", run_dir, path)
    assert exported.returncode == 0, exported.stderr
    data = path.read_bytes()
    (header,) = struct.unpack_from("<Q", data)
    floats = data[8 + header:]
    assert len(floats) == 4 * (FEATURES + 1), len(floats)
    return hashlib.sha256(floats).hexdigest()


class ModelProcessTest(unittest.TestCase):

    def train(self, *args, job=None):
        run = harness.train(job or write_job(), *args, "--", PROGRAM)
        self.assertEqual(run.summary["version"], 20)
        Ledger(run.dir / "commit_log").check(self)
        return weights_sha256(run.dir)

    def test_sync_gives_the_same_bits_for_any_cluster(self):
        found = {}
        for workers in (1, 2):
            for shards in (1, 2):
                found[workers, shards] = self.train(
                    f"--workers={workers}", f"--shards={shards}")
        self.assertEqual(len(set(found.values())), 1, found)
        another = self.train("--seed=2")
        self.assertNotIn(another, found.values())

    def test_local_steps_give_the_same_bits_for_any_cluster(self):
        # 13 mini-batches an epoch, the last one short: tasks span epochs.
        steps = harness.sets(["sync.local_steps=3", "optimizer.averaging={}"])
        self.assertEqual(self.train("--workers=1", *steps),
                         self.train("--workers=2", "--shards=2", *steps))

    def test_it_learns_what_the_samples_follow(self):
        run = harness.train(write_job(400), "--", PROGRAM)
        last = (run.dir / "metrics.jsonl").read_text().splitlines()[-1]
        self.assertLess(json.loads(last)["loss"], 1)

    def disturbed(self, number):
        """The hash of a run of which one model process was sent a signal, and
        what the run's worker 1 said of it."""
        job = write_job(150)
        slow = harness.sets(["delays.compute.constant.ms=5",
                             "limits.task_deadline_s=3"])
        quiet = harness.train(job, "--workers=2", "--shards=2", "--", PROGRAM)
        with cluster.Training(job, "--workers=2", "--shards=2", *slow, "--",
                              PROGRAM) as run:
            run.await_version(5)
            os.kill(run.model_process("worker-1", PROGRAM), number)
            output = run.end()
            self.assertEqual(run.process.returncode, 0,
                             output + run.log("worker-1"))
            Ledger(run.dir / "commit_log").check(self)
            self.assertEqual(weights_sha256(run.dir),
                             weights_sha256(quiet.dir))
            return run.log("worker-1")

    def test_a_killed_model_process_is_started_again(self):
        log = self.disturbed(signal.SIGKILL)
        self.assertRegex(log, r"event=life_over reason=\"the model process "
                         r"\(pid \d+, .*linear_model.py\) was killed by "
                         r"signal 9 in task \d+")
        self.assertIn("event=new_life incarnation=2", log)

    def test_one_that_stands_still_is_killed_and_started_again(self):
        log = self.disturbed(signal.SIGSTOP)
        self.assertRegex(log, r"event=life_over reason=\"the model process "
                         r"\(pid \d+, .*\) has said nothing for 3s in task")
        self.assertIn("event=new_life incarnation=2", log)

    def test_no_model_process_outlives_its_run(self):
        job = write_job(100000)
        with cluster.Training(job, "--workers=2", "--", PROGRAM) as run:
            run.await_version(2)
            processes = [run.model_process(f"worker-{w}", PROGRAM)
                         for w in (0, 1)]
            run.signal("worker-1", signal.SIGKILL)
            run.interrupt()
            run.end()
        for process in processes:
            harness.wait_until(
                lambda: not pathlib.Path(f"/proc/{process}").exists(),
                f"process {process} to end")

    def test_a_program_that_fails_is_named(self):
        run = harness.Run(write_job(), "--", PROGRAM.with_name(
            "faulty_model.py"), "prepare")
        self.assertNotEqual(run.result.returncode, 0)
        self.assertIn("failed before it was ready: FileNotFoundError: no "
                      "training data in /data", run.logs())

    def test_a_command_and_a_model_process_belong_together(self):
        without = harness.Run(write_job())
        self.assertEqual(without.result.returncode, 2)
        self.assertIn("model.external: expected -- COMMAND",
                      without.result.stderr)
        needless = harness.Run(harness.write_job(harness.LINEAR_JOB), "--",
                               PROGRAM)
        self.assertEqual(needless.result.returncode, 2)
        self.assertIn("expected no -- COMMAND", needless.result.stderr)

    def test_what_computes_by_itself_refuses_the_job(self):
        simulated = harness.tool("simulate", write_job(), "--run-dir",
                                 harness.scratch() / "run", "--set",
                                 "delays.compute.constant.ms=5")
        self.assertNotEqual(simulated.returncode, 0)
        self.assertIn("external: only the model process of a worker",
                      simulated.stderr)

    def test_check_shows_the_table(self):
        report = json.loads(harness.tool("check", write_job(),
                                         "--json").stdout)
        self.assertEqual([t["name"] for t in report["tensors"]],
                         ["linear.weight", "linear.bias"])
        self.assertEqual(report["weights"], FEATURES + 1)


if __name__ == "__main__":
    harness.main()
