#!/usr/bin/python3 -B
"""Where the workers' time went adds up to all of it, in runs that end, are
killed and go on."""

import json
import shutil
import struct
import unittest

import cluster
import harness
import ledger

# Leaves time to disturb a run before it ends, and gives each task a length.
SLOW = "delays.compute.constant.ms=10"


def seconds_there(folder):
    """The seconds of each worker, by worker, from its first task of each
    generation to the last that the generation's log knows of it."""
    there = {}
    for log in ledger.logs(folder):
        first, last, now = {}, {}, 0.0
        for record in ledger.records(log):
            parts = list(ledger.fields(record))
            if 2 in dict(parts):
                continue  # The header of a file, which has no time.
            now = struct.unpack("<d", dict(parts).get(1, bytes(8)))[0]
            for number, value in parts:
                if number not in (3, 4):
                    continue
                members = dict(ledger.fields(value))
                worker = members.get(1, 0)
                if number == 3:  # A task.
                    first.setdefault(worker, now)
                    last[worker] = None
                elif members.get(7, 0):  # The worker was lost with its task.
                    last[worker] = now
        for worker, begin in first.items():
            end = now if last[worker] is None else last[worker]
            there[worker] = there.get(worker, 0) + end - begin
    return there


class GoodputTest(unittest.TestCase):

    def goodput(self, folder):
        """What the command says, after checking that it adds up."""
        result = harness.tool("goodput", folder, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        said = json.loads(result.stdout)
        there = seconds_there(folder)
        self.assertEqual([one["worker"] for one in said["workers"]],
                         sorted(there))
        for one in [*said["workers"], said]:
            seconds = (there[one["worker"]] if "worker" in one
                       else sum(there.values()))
            self.assertAlmostEqual(one["worker_seconds"], seconds, places=6)
            self.assertAlmostEqual(sum(one["seconds"].values()), seconds,
                                   places=6)
            self.assertGreaterEqual(min(one["seconds"].values()), 0)
        self.assertAlmostEqual(
            said["goodput"], said["seconds"]["applied"] / sum(there.values()))
        return said

    def check_summary(self, folder, said):
        """The summary of a run that is over has the same, as shares."""
        summary = json.loads((folder / "summary.json").read_text())
        self.assertAlmostEqual(summary["goodput"], said["goodput"])
        self.assertAlmostEqual(summary["worker_seconds"],
                               said["worker_seconds"])
        self.assertEqual(summary["worker_time"].keys(), said["seconds"].keys())
        for cause, share in summary["worker_time"].items():
            self.assertAlmostEqual(share * said["worker_seconds"],
                                   said["seconds"][cause], msg=cause)
        self.assertAlmostEqual(sum(summary["worker_time"].values()), 1)

    def lines(self, folder):
        result = harness.tool("goodput", folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.splitlines()

    def test_a_run_that_cancels_and_one_that_drops_say_so(self):
        job = harness.write_job(harness.LINEAR_JOB)
        run = harness.train(job, "--workers=3", *harness.sets(
            [SLOW, "sync.policy=K_SYNC", "sync.k=1"]))
        said = self.goodput(run.dir)
        self.assertGreater(said["seconds"]["cancelled"], 0)
        self.assertGreater(said["seconds"]["applied"], 0)
        for never in ("dropped", "lost", "unfinished", "absent"):
            self.assertEqual(said["seconds"][never], 0, never)
        self.assertEqual(said["version"], run.summary["version"])
        self.check_summary(run.dir, said)
        # Told at the end of the run as well, and whenever its summary is.
        share = f"goodput {100 * said['goodput']:.1f}% ("
        self.assertIn(share, run.result.stdout)
        self.assertIn(share, harness.tool("status", run.dir).stdout)
        self.assertTrue(self.lines(run.dir)[-1].startswith(share[:-2]))

        dropping = harness.train(job, "--workers=3", *harness.sets(
            [SLOW, "sync.policy=ASYNC", "sync.staleness.bound=0",
             "sync.staleness.action=DROP"]))
        self.assertGreater(self.goodput(dropping.dir)["seconds"]["dropped"], 0)

    def test_a_dead_worker_is_lost_then_absent_and_a_rollback_is_lost(self):
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "epochs: 30"))
        sets = harness.sets([SLOW, "checkpoint.every_updates=40"])
        with cluster.Training(job, "--workers=2", *sets) as run:
            run.await_version(20)
            run.signal("worker-1", 9)
            back = run.await_status(
                lambda s: s["worker"][1]["incarnation"] == 2
                and s["worker"][1]["gradients"]["applied"] > 30,
                "worker 1 to work again")
            run.await_status(
                lambda s: (s["checkpoints"]["newest_version"] or 0) > 0
                and s["version"] > s["checkpoints"]["newest_version"] + 5
                and s["version"] > back["version"],
                "work after a checkpoint")
            pids = run.pids().values()
            run.kill(run.process.pid, *pids)
            run.process.wait()
            harness.wait_until(lambda: not run.pids(), "the killed to be gone")
            killed = self.goodput(run.dir)
            lost = killed["workers"][1]["seconds"]
            self.assertGreater(lost["absent"], 0)
            self.assertGreaterEqual(lost["lost"], 0)
            self.assertEqual(killed["workers"][0]["seconds"]["absent"], 0)
            self.assertEqual(killed["generations"], 1)

            result = harness.tool("train", job, "--resume", run.dir,
                                  "--workers=2", *sets)
            self.assertEqual(result.returncode, 0, result.stderr)
            both = self.goodput(run.dir)
            self.assertEqual(both["generations"], 2)
            self.assertGreater(both["seconds"]["lost"],
                               killed["seconds"]["lost"])
            self.assertEqual(both["seconds"]["unfinished"], 0)
            self.check_summary(run.dir, both)
            self.assertRegex(result.stdout, r"\ngoodput .*lost \d")

    def test_a_simulated_run_is_measured_in_virtual_time(self):
        folder = harness.scratch() / "simulated"
        result = harness.tool(
            "simulate", harness.write_job(harness.LINEAR_JOB), "--run-dir",
            folder, "--workers=4", *harness.sets(
                ["sync.policy=K_SYNC", "sync.k=2",
                 "delays.compute.exponential.mean_ms=50"]))
        self.assertEqual(result.returncode, 0, result.stderr)
        # Two of four are taken, and each waits or is cancelled besides.
        said = self.goodput(folder)
        self.assertLess(said["goodput"], 0.5)
        self.check_summary(folder, said)

    def test_what_is_no_run_is_named(self):
        for command in (["no/such"], ["no/such", "--json"]):
            result = harness.tool("goodput", *command)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stderr, "no/such: is no folder, expected "
                                            "that of a run\n")
        empty = harness.scratch()
        result = harness.tool("goodput", empty)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, f"{empty}/commit_log: cannot be read\n")

        run = harness.train(harness.write_job(harness.LINEAR_JOB))
        copy = harness.scratch() / "damaged"
        shutil.copytree(run.dir, copy)
        log = bytearray((copy / "commit_log").read_bytes())
        log[len(log) // 2] ^= 1
        (copy / "commit_log").write_bytes(log)
        result = harness.tool("goodput", copy)
        self.assertEqual(result.returncode, 1)
        self.assertIn("is damaged: its length or checksum is wrong",
                      result.stderr)
        # A log that a crash has cut short is measured as far as it goes.
        (copy / "commit_log").write_bytes(log[:len(log) // 2])
        summary = (copy / "summary.json").read_bytes()
        (copy / "summary.json").unlink()
        self.assertIn("are no whole record", "\n".join(self.lines(copy)))
        # Not that of a run that came to its end.
        (copy / "summary.json").write_bytes(summary)
        for command in "goodput", "replay", "ledger":
            result = harness.tool(command, copy)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(
                result.stdout + result.stderr,
                rf"{copy}/commit_log: the commit logs end with version \d+, "
                r"the run with version \d+ \(summary.json\): a file is damaged")
            self.assertNotIn("differs", result.stdout)

    def test_a_summary_that_is_damaged_is_named(self):
        run = harness.train(harness.write_job(harness.LINEAR_JOB))
        summary = run.dir / "summary.json"
        summary.write_text("{")
        measured = harness.tool("goodput", run.dir)
        self.assertEqual(measured.returncode, 1)
        self.assertIn("summary.json: cannot be read, expected a JSON object",
                      measured.stderr)
        damaged = harness.tool("replay", run.dir)
        summary.unlink()
        summary.mkdir()
        for result in damaged, harness.tool("replay", run.dir):
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(f"{summary}: cannot be read, expected a JSON object",
                          result.stderr)


if __name__ == "__main__":
    harness.main()
