#!/usr/bin/python3 -B
"""Shards and workers of one host share memory (wire.shared_memory): the same
bits as with floats that are sent, and nothing is left when one is killed."""

import os
import re
import unittest

import cluster
import harness
from pipeline_jobs import MLP

# Several chunks in each slice, so that pulls are streams.
CHUNKS = "limits.chunk_bytes=4096"
LENET = ["sync.policy=SYNC", "sync.gradients_per_update=4", "stop.updates=5",
         CHUNKS]
# Long enough to be interrupted in the middle.
LONG = ["sync.policy=SYNC", "sync.gradients_per_update=2", "stop.epochs=30",
        "checkpoint.every_updates=10", CHUNKS,
        "delays.compute.constant.ms=10"]
OFF = "wire.shared_memory=OFF"


def counted(run, name):
    """The sum of a counter over all shards' logs."""
    return sum(int(number) for log in run.dir.glob("ps_server-*.log")
               for number in re.findall(rf"\b{name}=(\d+)", log.read_text()))


def mapped(pid, name):
    """How many memories of this name a process has mapped."""
    with open(f"/proc/{pid}/maps") as maps:
        return sum(f"memfd:{name}" in line for line in maps)


def opened(pid, name):
    """How many descriptors of such a memory it has."""
    folder = f"/proc/{pid}/fd"
    count = 0
    for number in os.listdir(folder):
        try:
            count += f"memfd:{name}" in os.readlink(f"{folder}/{number}")
        except FileNotFoundError:
            pass  # Closed meanwhile.
    return count


class SharedMemoryTest(unittest.TestCase):

    def train(self, workers, shards, *overrides):
        return harness.train(harness.LENET, f"--workers={workers}",
                             f"--shards={shards}",
                             *harness.sets([*LENET, *overrides]))

    def test_the_bits_are_those_of_floats_that_are_sent(self):
        hashes = set()
        for workers, shards in ((1, 1), (2, 3)):
            for off in ([], [OFF]):
                run = self.train(workers, shards, *off)
                hashes.add(run.summary["weights_sha256"])
                moved = counted(run, "push_bytes_total") + counted(
                    run, "pull_bytes_total")
                shared = counted(run, "shared_bytes_total")
                # All but what has one chunk, or none.
                self.assertEqual(shared > 0.9 * moved, not off,
                                 (shared, moved))
        self.assertEqual(len(hashes), 1)

    def test_floats_of_16_bits_are_sent(self):
        run = self.train(1, 2, "wire={ pull: BF16 push: BF16 }",
                         "evaluation.enabled=false")
        self.assertEqual(counted(run, "shared_bytes_total"), 0)
        self.assertGreater(counted(run, "push_bytes_total"), 0)

    def test_the_stages_of_a_pipeline_share_as_well(self):
        hashes = set()
        for more in ([], [OFF],
                     ["worker.group={ pipeline_stages: 2 slots: 1 }"]):
            run = harness.train(
                harness.write_job(MLP), "--workers=2", "--shards=1",
                *harness.sets(["sync.policy=SYNC", CHUNKS,
                               "worker.micro_batch=16", *more]))
            hashes.add(run.summary["weights_sha256"])
            self.assertEqual(counted(run, "shared_bytes_total") > 0,
                             more != [OFF], more)
        self.assertEqual(len(hashes), 1)

    def test_nothing_is_left_of_a_worker_or_a_shard_that_is_killed(self):
        undisturbed = harness.train(harness.LENET, "--workers=2", "--shards=2",
                                    *harness.sets([*LONG, "stop.updates=60"]))
        with cluster.Training(harness.LENET, "--workers=2", "--shards=2",
                              *harness.sets([*LONG, "stop.updates=60"])) as run:
            run.await_version(5)
            pids = run.pids()
            before = {name: (mapped(pids[name], "sluice"),
                             opened(pids[name], "sluice"))
                      for name in ("ps_server-1", "worker-0")}
            # Its weights, and a gradient of each worker.
            self.assertEqual(mapped(pids["ps_server-1"], "sluice"), 3)
            # Its gradient, and the weights of each shard.
            self.assertEqual(mapped(pids["worker-0"], "sluice"), 3)
            run.signal("worker-1", 9)
            run.await_status(lambda s: any(w["incarnation"] == 2
                                           for w in s["worker"]),
                             "worker 1 to be back")
            at = run.status()["version"]
            run.await_version(at + 5)
            self.assertEqual(before["ps_server-1"],
                             (mapped(pids["ps_server-1"], "sluice"),
                              opened(pids["ps_server-1"], "sluice")))
            run.signal("ps_server-1", 9)
            run.await_status(lambda s: s["generation"] == 2,
                             "the next generation")
            run.await_version(run.status()["version"] + 5)
            self.assertEqual(before["worker-0"],
                             (mapped(pids["worker-0"], "sluice"),
                              opened(pids["worker-0"], "sluice")))
            run.end()
            self.assertEqual(run.summary["weights_sha256"],
                             undisturbed.summary["weights_sha256"])


if __name__ == "__main__":
    harness.main()
