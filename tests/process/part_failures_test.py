#!/usr/bin/python3 -B
"""Daemons started by hand. A process that dies and is started again, as by
systemd, finds the run going on. If that is impossible, every other process
fails within 10 seconds and names the dead one."""

import json
import signal
import time
import unittest

import by_hand
import faulty_disk
import harness

ALL_GONE_S = 10


class PartFailuresTest(unittest.TestCase):

    def gone(self, run, killed, named):
        deadline = time.monotonic() + ALL_GONE_S
        for other, process in run.processes.items():
            if other == killed:
                continue
            with self.subTest(killed=killed, ended=other):
                status = process.wait(
                    timeout=max(0.1, deadline - time.monotonic()))
                self.assertNotEqual(status, 0, run.log(other))
                self.assertIn(named, run.log(other).split("event=failed")[-1])

    def test_without_a_run_folder_the_death_of_a_shard_ends_every_process(self):
        with by_hand.ByHand() as run:
            run.await_training()
            run.kill("shard 1")
            self.gone(run, "shard 1", "shard 1")

    def test_the_death_of_the_coordinator_ends_every_process_and_is_named(self):
        with by_hand.ByHand(
                run_dir=True, sets=["limits.rejoin_timeout_s=5"]) as run:
            run.await_training()
            run.kill("shard 0")
            self.gone(run, "shard 0", f"coordinator at {run.lead}")
            self.assertEqual(run.processes["worker 0"].returncode, 75)
            self.assertEqual(run.processes["shard 1"].returncode, 75)

    def test_who_is_started_again_finds_the_run_going_on(self):
        with by_hand.ByHand(run_dir=True) as run:
            run.await_training()
            run.kill("shard 1")
            run.start("shard 1")
            run.await_training(generation=2)
            run.kill("shard 0")
            run.start("shard 0", "--resume")
            status = run.await_training(generation=3)
            self.assertEqual(status["recovery"]["reason"],
                             "shard 0 was started again")
            run.processes["shard 0"].send_signal(signal.SIGINT)
            for name, process in run.processes.items():
                self.assertEqual(process.wait(timeout=harness.TIMEOUT_S), 0,
                                 run.log(name))

    # Earlier versions ended the starting generation together with the run.
    def test_a_stop_during_a_recovery_is_carried_out_after_it(self):
        with by_hand.ByHand(
                run_dir=True, sets=["checkpoint.every_updates=10"]) as run:
            run.await_status(
                lambda s: (s["checkpoints"]["newest_version"] or 0) > 0,
                "a checkpoint")
            run.kill("shard 1")
            run.await_status(lambda s: s["generation"] == 2,
                             "the next generation")
            run.processes["shard 0"].send_signal(signal.SIGINT)
            run.start("shard 1")
            for name, process in run.processes.items():
                self.assertEqual(process.wait(timeout=harness.TIMEOUT_S), 0,
                                 run.log(name))
            summary = json.loads((run.dir / "run/summary.json").read_text())
            self.assertEqual(summary["failure"], "")
            self.assertEqual(summary["generation"], 2)
            self.assertGreaterEqual(summary["version"], 10)
            self.assertIsNotNone(summary["test_loss"])
            self.assertTrue((run.dir / "weights.safetensors").exists())

    def test_the_first_start_with_resume_begins_the_run(self):
        with by_hand.ByHand(run_dir=True) as run:
            run.kill("shard 0")
            run.start("shard 0", "--resume")
            self.assertLessEqual(
                run.await_status(lambda s: s["phase"] == "running",
                                 "the run to begin")["generation"], 2)

    def test_the_older_of_two_leads_finds_out_and_ends(self):
        with by_hand.ByHand(run_dir=True) as run:
            run.await_training()
            self.the_older_ends(run)

    def test_an_older_lead_with_a_stale_cache_finds_out_by_its_claim(self):
        disk = faulty_disk.FaultyDisk()
        with by_hand.ByHand(run_dir=True, job="checkpoint { every_updates: 20 }",
                            env=disk.env) as run:
            run.await_training()
            disk.set(f"in --listen={run.lead} "
                     f"hide read {run.dir}/run/commit_log-2")
            self.the_older_ends(run)
            self.assertIn("lead-1: is gone", run.log("shard 0"))

    def test_the_books_of_a_run_that_is_taken_from_a_living_lead_balance(self):
        with by_hand.ByHand(run_dir=True, job="checkpoint { every_updates: 20 }"
                            ) as run:
            run.await_training()
            self.the_older_ends(run)
            self.assertIn('event=takeover from_generation=1', run.log("newer"))
            # The first ended the older one, the second goes on.
            harness.wait_until(
                lambda: "event=resuming generation=3" in run.log("newer"),
                "the second generation", run.processes["newer"])
            run.kill("newer")
            run.start("shard 0", "--resume")
            later = run.await_status(
                lambda s: s["generation"] >= 4 and s["phase"] == "running",
                "a generation of the one that is started again")
            run.await_training(later["generation"])
            folder = run.dir / "run"
            stopped = harness.tool("stop", folder)
            self.assertEqual(stopped.returncode, 0, stopped.stderr)
            balanced = harness.tool("ledger", folder)
            self.assertEqual(balanced.returncode, 0, balanced.stdout)

    def the_older_ends(self, run):
        """It ends as soon as another lead has taken the next generation."""
        port = harness.reserve_port()
        run.commands["newer"] = [
            harness.PS_SERVER, "--shard=0", f"--listen=127.0.0.1:{port}",
            f"--job={run.job}", *run.folder, "--resume"]
        run.start("newer")
        older = run.processes["shard 0"]
        self.assertEqual(older.wait(timeout=ALL_GONE_S), 3,
                         run.log("shard 0"))
        self.assertIn("another process has taken the next generation",
                      run.log("shard 0").split("event=failed")[-1])
        self.assertIsNone(run.processes["newer"].poll())


if __name__ == "__main__":
    harness.main()
