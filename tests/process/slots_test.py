#!/usr/bin/python3 -B
"""Groups with several tasks in hand: the books and the replay of every policy,
the bits of SYNC, stages with several processes, and whoever dies."""

import json
import re
import signal
import subprocess
import unittest

import cluster
import harness
from pipeline_jobs import LONG, MLP, SLOW, SYNC, sound, stages


def slots(number, stage_count=2, more=""):
    return stages(stage_count, more=f"slots: {number} {more}")


class SlotsTest(unittest.TestCase):

    def setUp(self):
        self.job = harness.write_job(MLP)

    def train(self, sets, workers, *args):
        return harness.train(self.job, f"--workers={workers}", "--shards=2",
                             *args, *harness.sets(sets))

    # ---- What holds ----

    def test_the_books_and_the_replay_of_every_policy(self):
        for sync, group in (
                ("{ policy: K_SYNC k: 2 }", slots(2)),
                ("{ policy: K_BATCH_SYNC k: 2 }", slots(2)),
                ("{ policy: ASYNC }", slots(2)),
                ("{ policy: ASYNC }", slots(4, 3, "replicas: [1, 3, 2]")),
                ("{ policy: ASYNC }", slots(4, 1)),
                ("{ policy: K_ASYNC k: 3 }", slots(2)),
                ("{ policy: K_BATCH_ASYNC k: 2 }", slots(2))):
            run = self.train(
                [f"sync={sync}", "worker.micro_batch=8",
                 "optimizer.learning_rate=0.005", *group], 4)
            self.assertEqual(run.summary["samples"], 2 * 1280, (sync, group))
            sound(self, run)
            # Every slot is a worker, and each has had work.
            logs = "".join(path.read_text()
                           for path in run.dir.glob("worker-*.log"))
            self.assertEqual(
                set(re.findall(r"event=done worker=(\d) "
                               r"tasks_started_total=[1-9]", logs)),
                set("0123"), (sync, group))

    def test_sync_has_the_bits_of_workers_of_one_process(self):
        sets = [*SYNC, "worker.micro_batch=6"]
        whole = self.train(sets, 1).summary["weights_sha256"]
        for workers, group in ((2, slots(2)), (4, slots(2)),
                               (6, slots(3, 2, "replicas: [3, 1]"))):
            self.assertEqual(
                self.train(sets + group, workers).summary["weights_sha256"],
                whole, (workers, group))

    def test_an_update_waits_for_groups_by_default(self):
        job = json.loads(harness.tool(
            "check", self.job, "--json", "--workers=6",
            *harness.sets(slots(3))).stdout)["job"]
        self.assertEqual(job["sync"]["gradients_per_update"], 2)

    # ---- Deaths ----

    def disturbed(self, name, recoveries=0):
        """A run in which `name` is killed ends with the bits of a calm one."""
        sets = LONG + slots(2, 2, "replicas: [2, 1]")
        with cluster.Training(self.job, *harness.sets(sets), "--workers=4",
                              "--shards=2", SLOW) as run:
            run.await_version(15)
            self.check_status(run)
            run.signal(name, signal.SIGKILL)
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            calm = harness.train(self.job, *harness.sets(LONG)).summary
            for key in ("weights_sha256", "version", "samples", "test_loss"):
                self.assertEqual(run.summary[key], calm[key], key)
            self.assertEqual(run.summary["generation"], 1 + recoveries)
            sound(self, run)

    def check_status(self, run):
        """Each worker's place, and its two processes: of two groups of two slots
        whose first stage has two replicas."""
        pids = run.pids()
        for worker in run.status()["worker"]:
            group, slot = worker["id"] % 2, worker["id"] // 2
            self.assertEqual(worker["place"], f"group {group}, slot {slot}")
            first = f"worker-{group}" + (".1" if slot == 1 else "")
            self.assertEqual(
                [int(name.split(":")[-1]) for name in worker["members"]],
                [pids[first], pids[f"worker-{group}.2"]], worker)

    def test_a_member_of_all_slots_that_is_killed(self):
        self.disturbed("worker-1.2")

    def test_a_replica_that_is_killed(self):
        self.disturbed("worker-0.1")

    def test_a_shard_that_is_killed(self):
        self.disturbed("ps_server-1", recoveries=1)

    # ---- What is seen ----

    def test_the_timeline_has_a_track_for_each_slot_and_member(self):
        run = self.train(["sync.policy=ASYNC", "stop.updates=12",
                          "worker.micro_batch=8", *slots(2)], 2, "--timeline")
        text = (run.dir / "timeline.json").read_text()
        events = json.loads(text.rstrip().rstrip(",") + "]")
        names = {e["args"]["name"] for e in events
                 if e["name"] == "process_name"}
        self.assertEqual(names, {f"worker {w} member {m}"
                                 for w in (0, 1) for m in (0, 1)})
        # The slots of a member take turns: one computes at a time.
        for member in (0, 1):
            spans = sorted(
                (e["ts"], e["ts"] + e["dur"]) for e in events
                if e["name"] in ("forward", "backward")
                and e["pid"] % 2 == member)
            overlap = sum(max(0, min(end, other) - begin)
                          for (_, end), (begin, other)
                          in zip(spans, spans[1:]))
            total = sum(end - begin for begin, end in spans)
            self.assertLess(overlap, 0.05 * total, (member, overlap, total))

    def test_a_simulated_run_is_replayed_and_says_how_often_a_task_ends(self):
        folder = harness.scratch() / "run"
        run = harness.tool(
            "simulate", self.job, "--workers=6", "--run-dir", folder,
            *harness.sets(["sync={ policy: K_BATCH_ASYNC k: 2 }",
                           "optimizer.learning_rate=0.005",
                           "worker.micro_batch=8",
                           "delays.compute.constant.ms=50", *slots(3)]))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout,
                         r"a task +0\.\d+ s, and one ends every 0\.\d+ s, of "
                         r"which bubble \d+\.\d\d%; members idle ")
        for command in ("ledger", "replay"):
            result = harness.tool(command, folder)
            self.assertEqual(result.returncode, 0, result.stdout)

    # ---- Bad input ----

    def test_slots_that_cannot_be(self):
        for sets, words in (
                (slots(3), "cluster.workers: must be a multiple of 3 "
                 "(worker.group.slots), is 4"),
                (slots(65), "worker.group.slots: must be 1 to 64, is 65"),
                (slots(2) + ["data.sharding=STATIC"],
                 "worker.group.slots: must be 1 with data.sharding STATIC"),
                (slots(2) + ["sync.policy=ASYNC", "sync.warm_start_updates=3"],
                 "worker.group.slots: must be 1 with sync.warm_start_updates"),
                (slots(2) + ["cluster.max_workers=6"],
                 "cluster.max_workers: must be 4 (cluster.workers) with "
                 "worker.group.slots 2, is 6"),
                (slots(2, 1) + ["worker.device=CUDA"],
                 "worker.device: must be CPU or REFERENCE with "
                 "worker.group.slots 2, is CUDA"),
                (slots(2, 2, "replicas: [2]"),
                 "worker.group.replicas: must be 2 "
                 "(worker.group.pipeline_stages), are 1"),
                (slots(2, 2, "replicas: [3, 1]"),
                 "worker.group.replicas[0]: must be 1 to 2 "
                 "(worker.group.slots), is 3"),
                (["cluster.workers=40", *slots(40, 2, "replicas: [40, 25]")],
                 "worker.group.replicas: must be at most 64 in all, are 65")):
            result = harness.tool("check", self.job, "--workers=4",
                                  *harness.sets(sets))
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn(words, result.stderr)

    def test_more_to_wait_for_than_the_other_groups_have(self):
        for k, warned in ((3, True), (2, False)):
            said = harness.tool(
                "check", self.job, "--workers=4",
                *harness.sets([f"sync={{ policy: K_ASYNC k: {k} }}",
                               "optimizer.sgd.momentum=0", *slots(2)])).stdout
            self.assertEqual("while one of 2 groups is gone there are 2 "
                             "workers" in said, warned, said)

    def test_a_group_that_there_is_not(self):
        for group, number, most in (
                (slots(2, 1), 2, "cluster.workers / worker.group.slots"),
                (["cluster.workers=2", "worker.group.pipeline_stages=2"], 7,
                 "cluster.workers or max_workers")):
            ended = subprocess.run(
                [harness.WORKER, f"--job={self.job}",
                 "--coordinator=127.0.0.1:1", "--listen=unix-abstract:none",
                 *harness.sets(["cluster.workers=4",
                                "limits.start_timeout_s=3", *group]),
                 f"--worker={number}"],
                capture_output=True, text=True, timeout=harness.TIMEOUT_S)
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn(f"--worker: must be 0 to 1 (the groups, {most}), is "
                          f"{number}", ended.stderr)


if __name__ == "__main__":
    harness.main()
