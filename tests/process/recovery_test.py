#!/usr/bin/python3 -B
"""A shard or the coordinator may die at any time. The run goes back to its
newest checkpoint by itself, and under SYNC ends with the bits of the
undisturbed run. Every gradient is counted once."""

import signal
import time
import unittest

import cluster
import harness
import ledger

# Long enough to be interrupted in the middle: 400 updates of two mini-batches.
SYNC = ["stop.epochs=20", "sync.gradients_per_update=2"]
STORED = ["checkpoint.every_updates=10"]
# Leaves time to observe a run before it ends. It changes no bit.
SLOW = "--set=delays.compute.constant.ms=10"
# Shorter than the default, so that a test waits less for a silent process, and
# long enough for live processes on a busy machine.
LEASE = "limits.lease_s=2"


class RecoveryTest(unittest.TestCase):

    def setUp(self):
        self.job = harness.write_job(harness.LINEAR_JOB)

    def start(self, sets, *args):
        return cluster.Training(self.job, *harness.sets(sets), *args, SLOW)

    def await_checkpoint(self, run, version=1):
        run.await_status(
            lambda s: (s["checkpoints"]["newest_version"] or 0) >= version,
            f"a checkpoint of version {version} or later")

    def await_generation(self, run, generation):
        return run.await_status(
            lambda s: s["generation"] >= generation and s["phase"] == "running",
            f"generation {generation} to run")

    def await_said(self, run, name, words):
        harness.wait_until(
            lambda: words in run.log(name), f"{name} to say {words}",
            run.process)

    def ended_well(self, run):
        output = run.end()
        self.assertEqual(run.process.returncode, 0, output)
        return output

    def sound(self, run, recoveries):
        """Checks the books of a run that went back at least this often."""
        summary = run.summary
        self.assertEqual(summary["failure"], "")
        logs = ledger.logs(run.dir)
        self.assertEqual(len(logs), summary["generation"])
        self.assertGreaterEqual(summary["generation"], 1 + recoveries)
        # Every task of every generation is counted once. Within a generation no
        # task has two verdicts, and no mini-batch is in two updates.
        tasks = 0
        for log in logs:
            books = ledger.Ledger(log)
            tasks += len(books.issued)
            books.check_generation(self)
        self.assertEqual(sum(summary["gradients"].values()), tasks)
        result = harness.tool("ledger", run.dir)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        result = harness.tool("replay", run.dir, "--json")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        result = harness.tool("plot", run.dir)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def same_bits(self, run, sets, recoveries=1):
        undisturbed = harness.train(self.job, *harness.sets(sets)).summary
        for name in ("weights_sha256", "version", "samples", "test_loss"):
            self.assertEqual(run.summary[name], undisturbed[name], name)
        self.assertEqual(run.summary["gradients"]["applied"],
                         undisturbed["gradients"]["applied"])
        self.sound(run, recoveries)

    # ---- Killed ----

    def test_a_shard_that_is_killed(self):
        with self.start(SYNC + STORED) as run:
            self.await_checkpoint(run)
            run.signal("ps_server-1", signal.SIGKILL)
            status = self.await_generation(run, 2)
            self.assertGreaterEqual(status["recovery"]["restored_version"], 10)
            # Reported by its parent, not found by its lease.
            self.assertEqual(status["recovery"]["reason"],
                             "shard 1 died: killed by signal 9 (Killed)")
            output = self.ended_well(run)
            self.assertIn("ps_server-1: killed by signal 9 (Killed); starting "
                          "it again", output)
            self.assertRegex(output, r"begun again 1 time: \d+ updates and "
                                     r"\d+ gradients lost")
            self.assertRegex(output, r"checkpoints: \d+ written since "
                                     "generation 2 began, the newest of")
            self.assertIn('event=generation_over generation=1',
                          run.log("ps_server-0"))
            self.assertIn("event=resuming generation=2 from_generation=1",
                          run.log("ps_server-0"))
            self.same_bits(run, SYNC + STORED)

    def test_the_lead_that_is_killed(self):
        with self.start(SYNC + STORED) as run:
            self.await_checkpoint(run)
            run.signal("ps_server-0", signal.SIGKILL)
            self.await_generation(run, 2)
            output = self.ended_well(run)
            self.assertIn("ps_server-0: killed by signal 9 (Killed); starting "
                          "it again", output)
            self.same_bits(run, SYNC + STORED)

    def killed_in_the_farewell(self, updates, end, said):
        """The lead of a run of so many updates is killed once `end`, of the
        run, has ended it, before worker 1 has heard."""
        sets = ["sync.policy=ASYNC", f"stop={{updates: {updates}}}",
                "limits.lease_s=10"]
        with self.start(sets) as run:
            run.await_version(100)
            # The lead waits until this one, too, has heard of the end.
            run.signal("worker-1", signal.SIGSTOP)
            end(run)
            self.await_said(run, "ps_server-0", "event=finished")
            harness.wait_until((run.dir / "summary.json").exists,
                               "the summary", run.process)
            summary = (run.dir / "summary.json").read_text()
            weights = (run.dir / "weights.safetensors").read_bytes()
            run.signal("ps_server-0", signal.SIGKILL)
            run.signal("worker-1", signal.SIGKILL)
            output = self.ended_well(run)
            self.assertIn("ps_server-0: killed by signal 9 (Killed); starting "
                          "it again", output)
            self.assertIn("event=over reason=", run.log("ps_server-0"))
            # It has heard of the end from the lead that only found it.
            self.assertRegex(run.log("worker-1"),
                             f"event=run_over reason=.*the run has {said}")
            self.assertEqual((run.dir / "summary.json").read_text(), summary)
            self.assertEqual((run.dir / "weights.safetensors").read_bytes(),
                             weights)
            self.assertIsNotNone(run.summary["weights_sha256"])
            self.assertFalse((run.dir / "farewell").exists())
            return run.summary

    def test_the_lead_that_is_killed_once_the_run_has_reached_its_end(self):
        summary = self.killed_in_the_farewell(200, lambda run: None,
                                              "reached its end")
        self.assertEqual(summary["version"], 200)

    def test_the_lead_that_is_killed_once_the_run_was_stopped(self):
        summary = self.killed_in_the_farewell(
            1000000,
            lambda run: harness.tool("stop", run.dir), "been stopped")
        self.assertIsNone(summary["reached"])

    def test_both_at_once(self):
        with self.start(SYNC + STORED) as run:
            self.await_checkpoint(run)
            pids = run.pids()
            run.kill(pids["ps_server-0"], pids["ps_server-1"])
            self.await_generation(run, 2)
            self.ended_well(run)
            self.same_bits(run, SYNC + STORED)

    def test_one_after_the_other(self):
        with self.start(SYNC + STORED) as run:
            for generation, name in enumerate(
                    ("ps_server-1", "ps_server-0", "ps_server-1"), 1):
                self.await_generation(run, generation)
                self.await_checkpoint(run, 10 * generation)
                run.signal(name, signal.SIGKILL)
            self.await_generation(run, 4)
            self.ended_well(run)
            self.same_bits(run, SYNC + STORED, recoveries=3)

    def test_a_worker_that_is_killed_during_a_recovery(self):
        with self.start(SYNC + STORED) as run:
            self.await_checkpoint(run)
            worker = run.pids()["worker-0"]
            run.signal("ps_server-1", signal.SIGKILL)
            self.await_said(run, "ps_server-0", "event=generation_over")
            run.kill(worker)
            self.await_generation(run, 2)
            output = self.ended_well(run)
            self.assertIn("worker-0: killed by signal 9 (Killed)", output)
            self.same_bits(run, SYNC + STORED)

    # Earlier versions failed the run: "waited 20s for worker 2".
    def test_a_shard_that_is_killed_after_a_worker_had_left_for_good(self):
        sets = SYNC + STORED + ["limits.start_timeout_s=20"]
        with self.start(sets, "--workers=3") as run:
            self.await_checkpoint(run)
            run.signal("worker-2", signal.SIGTERM)
            run.await_status(lambda s: s["worker"][2]["state"] == "left",
                             "worker 2 to leave")
            run.signal("ps_server-1", signal.SIGKILL)
            self.await_generation(run, 2)
            self.ended_well(run)
            self.assertIn("event=started policy=SYNC workers=2",
                          run.log("ps_server-0"))
            self.same_bits(run, SYNC + STORED)

    def test_before_the_first_checkpoint_it_begins_again(self):
        for name in ("ps_server-1", "ps_server-0"):
            with self.start(SYNC) as run:
                run.await_version(20)
                run.signal(name, signal.SIGKILL)
                status = self.await_generation(run, 2)
                self.assertEqual(status["recovery"]["restored_version"], 0)
                self.assertGreaterEqual(status["recovery"]["updates_lost"], 20)
                self.ended_well(run)
                log = run.log("ps_server-0")
                self.assertIn("event=no_checkpoints", log)
                self.assertIn("event=from_version_0", log)
                self.same_bits(run, SYNC)

    def test_while_the_last_version_is_evaluated(self):
        sets = ["stop.updates=40", "sync.gradients_per_update=2", *STORED]
        with self.start(sets) as run:
            run.await_version(1)
            # Makes the end of the run long enough to kill a process during it.
            evaluator = run.pids()["evaluator"]
            run.kill(evaluator, number=signal.SIGSTOP)
            self.await_said(run, "ps_server-0", "event=finishing version=40")
            harness.wait_until(
                (run.dir / "checkpoints/1-40/manifest").exists,
                "the last version to be stored", run.process)
            run.signal("ps_server-1", signal.SIGKILL)
            self.await_said(run, "ps_server-0", "event=resuming generation=2")
            run.kill(evaluator, number=signal.SIGCONT)
            self.ended_well(run)
            self.same_bits(run, sets)

    def test_the_other_policies_take_each_mini_batch_once(self):
        for policy in ("{ policy: K_SYNC k: 2 }",
                       "{ policy: K_BATCH_ASYNC k: 2 }"):
            sets = [f"sync={policy}", "optimizer.learning_rate=0.005",
                    "stop.epochs=20", *STORED]
            with self.start(sets, "--workers=3") as run:
                self.await_checkpoint(run)
                run.signal("ps_server-1", signal.SIGKILL)
                self.await_generation(run, 2)
                self.await_checkpoint(run)
                run.signal("ps_server-0", signal.SIGKILL)
                self.await_generation(run, 3)
                self.ended_well(run)
                self.assertEqual(run.summary["samples"], 20 * 1280)
                self.assertEqual(run.summary["gradients"]["applied"], 20 * 40)
                self.sound(run, recoveries=2)

    # ---- Silent ----

    def test_a_shard_that_is_stopped_past_its_lease(self):
        with self.start(SYNC + STORED + [LEASE]) as run:
            self.await_checkpoint(run)
            pid = run.pids()["ps_server-1"]
            run.kill(pid, number=signal.SIGSTOP)
            self.await_said(run, "ps_server-0",
                            'reason="shard 1 died: not heard of for 2s"')
            run.kill(pid, number=signal.SIGCONT)
            self.await_generation(run, 2)
            self.ended_well(run)
            self.assertIn("event=next_generation", run.log("ps_server-1"))
            self.same_bits(run, SYNC + STORED)

    def test_a_lead_that_is_stopped_for_longer_than_the_others_wait(self):
        sets = SYNC + STORED + ["limits.rejoin_timeout_s=1"]
        with self.start(sets) as run:
            self.await_checkpoint(run)
            before = run.pids()
            run.kill(before["ps_server-0"], number=signal.SIGSTOP)
            harness.wait_until(
                lambda: before["ps_server-1"] not in run.pids().values(),
                "shard 1 to give up", run.process)
            run.kill(before["ps_server-0"], number=signal.SIGCONT)
            self.ended_well(run)
            self.assertIn("no answer for", run.log("ps_server-1"))
            self.same_bits(run, sets)

    # ---- What comes to no good ----

    def test_a_shard_that_dies_again_and_again_ends_the_run_and_is_named(self):
        with self.start(SYNC + STORED) as run:
            run.await_version(1)
            output = run.kill_until_it_ends("ps_server-1")
            self.assertEqual(run.process.returncode, 1, output)
            self.assertIn("the run failed: ps_server-1: killed by signal 9 "
                          "(Killed), for the 6th time in a row", output)

    def test_who_cannot_be_started_again_at_once_is_later(self):
        with self.start(["stop.epochs=100000", LEASE]) as run:
            run.await_version(1)
            pids = run.pids()
            away = run.dir.rename(run.dir.with_name("away"))
            run.kill(pids["worker-1"])
            # The second of two attempts is a second later.
            time.sleep(1.5)
            away.rename(run.dir)
            run.await_status(
                lambda s: s["worker"][1]["incarnation"] == 2 and
                s["worker"][1]["state"] in ("computing", "waiting"),
                "worker 1 to be back")
            self.assertEqual(run.pids()["ps_server-0"], pids["ps_server-0"])
            run.interrupt()
            output = self.ended_well(run)
            self.assertIn(f"worker-1: opening {run.dir}/worker-1.log: No such "
                          "file or directory; starting it again", output)

    def test_ctrl_c_while_the_lead_is_away(self):
        with self.start(SYNC + STORED) as run:
            self.await_checkpoint(run)
            run.signal("ps_server-0", signal.SIGKILL)
            run.interrupt()
            output = self.ended_well(run)
            self.assertIn("stopping; once more to kill", output)

    def test_ctrl_c_once_many_have_found_the_lead_hanging(self):
        with self.start(["cluster.workers=12", "limits.rejoin_timeout_s=1",
                         "stop.epochs=100000"]) as run:
            run.await_version(1)
            run.kill(run.pids()["ps_server-0"], number=signal.SIGSTOP)
            # So that it sees all of them at once.
            run.kill(run.process.pid, number=signal.SIGSTOP)
            harness.wait_until(lambda: list(run.pids()) == ["ps_server-0"],
                               "the others to end")
            run.kill(run.process.pid, number=signal.SIGCONT)
            time.sleep(0.5)
            began = time.monotonic()
            run.interrupt()
            for line in run.process.stdout:
                if line == "stopping; once more to kill\n":
                    break
            self.assertLess(time.monotonic() - began, 15)


if __name__ == "__main__":
    harness.main()
