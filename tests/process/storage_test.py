#!/usr/bin/python3 -B
"""A disk that does not answer is not a damaged disk. Failed reads are tried
again, nothing is lost, and no run starts over where there was one."""

import contextlib
import os
import pathlib
import re
import signal
import stat
import subprocess
import unittest

import cluster
import faulty_disk
import harness

SYNC = ["stop.epochs=20", "sync.gradients_per_update=2",
        "checkpoint.every_updates=10"]
# Leaves time to interrupt. It changes no bit.
SLOW = "--set=delays.compute.constant.ms=10"


class StorageTest(unittest.TestCase):

    def setUp(self):
        self.job = harness.write_job(harness.LINEAR_JOB)
        self.disk = faulty_disk.FaultyDisk()

    def start(self, *sets):
        return cluster.Training(self.job, *harness.sets([*SYNC, *sets]), SLOW,
                                env=self.disk.env)

    def await_checkpoint(self, run):
        return run.await_status(
            lambda s: (s["checkpoints"]["newest_version"] or 0) >= 10,
            "a checkpoint")["checkpoints"]["newest_version"]

    def await_said(self, run, name, words, times=1):
        harness.wait_until(lambda: run.log(name).count(words) >= times,
                           f"{name} to say {words}", run.process)

    def await_generation(self, run, generation):
        return run.await_status(
            lambda s: s["generation"] >= generation and s["phase"] == "running",
            f"generation {generation} to run")

    def went_on_from(self, run, version):
        """Checks that the run succeeded and lost nothing that was stored."""
        output = run.end()
        self.assertEqual(run.process.returncode, 0, output)
        log = run.log("ps_server-0")
        # Nothing that was stored is passed over, only what was being written.
        for passed in re.finditer("event=passed_over .*", log):
            version_of = re.search(r"/checkpoints/\d+-(\d+)\b", passed[0])
            self.assertIsNotNone(version_of, passed[0])
            self.assertNotIn(f"event=checkpoint version={version_of[1]} ",
                             log[:passed.start()])
        self.assertNotIn("event=from_version_0", log)
        self.assertGreaterEqual(self.restored, version)
        undisturbed = harness.train(self.job, *harness.sets(SYNC)).summary
        for name in ("weights_sha256", "version", "samples"):
            self.assertEqual(run.summary[name], undisturbed[name], name)

    def await_restored(self, run, generation=2):
        status = self.await_generation(run, generation)
        self.restored = status["recovery"]["restored_version"]

    # ---- What cannot be read ----

    def test_manifests_that_cannot_be_read_for_seconds_cost_no_checkpoint(self):
        for victim in ("ps_server-1", "ps_server-0"):
            with self.start() as run:
                version = self.await_checkpoint(run)
                with self.disk.faults(f"fail EIO read {run.dir}/checkpoints"):
                    run.signal(victim, signal.SIGKILL)
                    # The seventh attempt is 2.5 s after the first.
                    self.await_said(run, "ps_server-0", "event=storage_retry",
                                    times=7)
                self.await_restored(run)
                self.went_on_from(run, version)
                self.assertIn("checkpoints: cannot be read: opendir: "
                              "Input/output error", run.log("ps_server-0"))

    @staticmethod
    def await_quiet(run):
        """Waits until nothing is decided or stored any more."""
        seen = []

        def quiet(status):
            seen.append(status["version"])
            return (seen[-3:] == [status["version"]] * 3 and
                    status["checkpoints"]["writing_version"] is None)

        run.await_status(quiet, "the run to stand still")

    def waits_for_checkpoints(self, killed, words):
        """Kills a server while the folder of checkpoints is away. The lead says
        so in these words, and goes on once it is back."""
        with self.start() as run:
            version = self.await_checkpoint(run)
            there, away = run.dir / "checkpoints", run.dir / "away"
            run.kill(run.pids()["worker-0"], number=signal.SIGSTOP)
            self.await_quiet(run)  # Or a shard would make the folder anew.
            there.rename(away)
            run.signal(killed, signal.SIGKILL)
            self.await_said(run, "ps_server-0", words)
            self.assertFalse(there.exists())
            away.rename(there)
            run.kill(*[pid for name, pid in run.pids().items()
                       if name == "worker-0"], number=signal.SIGCONT)
            self.await_restored(run)
            self.went_on_from(run, version)

    def test_a_folder_of_checkpoints_that_is_away_is_waited_for(self):
        self.waits_for_checkpoints("ps_server-1",
                                   "expected this checkpoint or a newer one")

    def test_such_a_folder_is_waited_for_when_the_lead_dies(self):
        self.waits_for_checkpoints("ps_server-0",
                                   "expected the folder that the run has made")

    def test_a_lead_that_starts_on_a_full_disk_waits_for_room(self):
        for file in "commit_log-2", "job.textproto", "addresses":
            with self.subTest(file=file), self.start() as run:
                version = self.await_checkpoint(run)
                with self.disk.faults("in --shard=0 fail ENOSPC write "
                                      f"{run.dir}/{file}"):
                    run.signal("ps_server-0", signal.SIGKILL)
                    self.await_said(run, "ps_server-0", "event=storage_retry")
                self.await_restored(run)
                self.went_on_from(run, version)

    def test_a_generation_whose_log_cannot_be_removed_is_passed_over(self):
        with self.start() as run:
            version = self.await_checkpoint(run)
            log, claim = run.dir / "commit_log-2", run.dir / "lead-2"
            with self.disk.faults(f"in --shard=0 stall write {claim}"):
                run.signal("ps_server-0", signal.SIGKILL)
                harness.wait_until(log.exists, "the generation's log",
                                   run.process)
                self.disk.set(f"in --shard=0 fail EIO write {claim}",
                              f"in --shard=0 fail EIO write {log}")
                self.await_said(run, "ps_server-0", "event=storage_retry")
            # Its own log is not that of another lead.
            self.await_restored(run, generation=3)
            self.went_on_from(run, version)

    def test_a_lead_that_waits_for_its_disk_can_be_stopped(self):
        folder = harness.scratch()
        log = folder / "lead.log"
        with self.disk.faults(f"fail EIO write {folder}/commit_log"):
            lead = subprocess.Popen(
                [harness.PS_SERVER, "--shard=0", f"--job={self.job}",
                 "--listen=127.0.0.1:0", f"--run-dir={folder}",
                 f"--log={log}"], env=self.disk.env)
            harness.wait_until(
                lambda: log.exists() and
                "event=storage_retry" in log.read_text(),
                "the lead to wait", lead)
            lead.terminate()
            # Not 75: whoever supervises it would start it again.
            self.assertEqual(lead.wait(harness.TIMEOUT_S), 0, log.read_text())

    def test_addresses_that_cannot_be_written_end_no_generation(self):
        with self.start("stop.epochs=1000", "limits.lease_s=2") as run:
            self.await_checkpoint(run)
            addresses = run.dir / "addresses"
            shard = run.pids()["ps_server-1"]
            run.kill(shard, number=signal.SIGSTOP)
            # The lead says where it is, and then waits for the shard.
            harness.wait_until(lambda: "shard 1" not in addresses.read_text(),
                               "the next generation", run.process)
            with self.disk.faults(
                    f"in --shard=0 fail EIO write {addresses}"):
                run.kill(shard, number=signal.SIGCONT)
                self.await_said(run, "ps_server-0", "event=no_addresses")
                self.await_generation(run, 2)
                self.assertNotIn("shard 1", addresses.read_text())
            harness.wait_until(lambda: "shard 1" in addresses.read_text(),
                               "all addresses", run.process)
            run.interrupt()
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertEqual(run.summary["generation"], 2)

    def test_a_lead_may_take_as_long_to_listen_as_the_job_says(self):
        with self.disk.faults(
                f"in --shard=0 stall write {os.environ['TEST_TMPDIR']}"), \
                self.start("limits.start_timeout_s=4",
                           "limits.storage_timeout_s=2") as run:
            output = run.end()
        self.assertEqual(run.process.returncode, 1, output)
        limit = "6s (limits.start_timeout_s and limits.storage_timeout_s)"
        self.assertIn("starting: ps_server-0 has not said yet where it "
                      f"listens; it may take {limit}", output)
        self.assertIn("the run failed: ps_server-0 has not said within "
                      f"{limit} where it listens", output)

    def test_a_lead_that_is_killed_before_it_has_a_log_begins_the_run(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.disk.faults(
                f"in --shard=0 stall write {os.environ['TEST_TMPDIR']}"))
            run = stack.enter_context(self.start())
            harness.wait_until(lambda: "ps_server-0" in run.pids(), "the lead",
                               run.process)
            run.signal("ps_server-0", signal.SIGKILL)
            self.disk.heal()
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertIn("ps_server-0: killed by signal 9", output)
            self.assertEqual(run.summary["generation"], 1)

    def test_a_stale_answer_that_a_manifest_is_missing_is_not_believed(self):
        with self.start() as run:
            version = self.await_checkpoint(run)
            with self.disk.faults(
                    f"in --shard=0 fail ENOENT read {run.dir}/checkpoints/1-"):
                run.signal("ps_server-1", signal.SIGKILL)
                self.await_said(run, "ps_server-0", "event=storage_retry")
            self.await_restored(run)
            self.went_on_from(run, version)

    def test_what_stays_unreadable_ends_the_run_and_nothing_is_deleted(self):
        with self.start("limits.storage_timeout_s=1") as run:
            self.await_checkpoint(run)
            with self.disk.faults(f"fail EIO read {run.dir}/checkpoints"):
                run.signal("ps_server-1", signal.SIGKILL)
                self.await_said(run, "ps_server-0", "event=storage_retry")
                before = sorted((run.dir / "checkpoints").rglob("*"))
                output = run.end()
            self.assertEqual(run.process.returncode, 1, output)
            self.assertIn("checkpoints: cannot be read: opendir: Input/output "
                          "error; tried for 1s (limits.storage_timeout_s)",
                          output)
            self.assertEqual(sorted((run.dir / "checkpoints").rglob("*")),
                             before)
            # Once the disk answers, the run can be resumed by hand.
            result = harness.tool("train", self.job, *harness.sets(SYNC),
                                  "--resume", run.dir)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_shard_that_cannot_read_its_weights_tries_again(self):
        with self.start() as run:
            version = self.await_checkpoint(run)
            with self.disk.faults(
                    f"in --shard=1 fail EIO read {run.dir}/checkpoints"):
                run.signal("ps_server-1", signal.SIGKILL)
                self.await_said(run, "ps_server-1", "event=storage_retry",
                                times=5)
            self.await_restored(run)
            self.went_on_from(run, version)
            self.assertEqual(run.summary["generation"], 2)

    def test_a_shard_that_cannot_read_its_weights_for_long_ends_no_run(self):
        with self.start("limits.storage_timeout_s=0.5") as run:
            version = self.await_checkpoint(run)
            with self.disk.faults(
                    f"in --shard=1 fail EIO read {run.dir}/checkpoints"):
                run.signal("ps_server-1", signal.SIGKILL)
                self.await_said(run, "ps_server-0",
                                "event=generation_over generation=2")
            self.await_restored(run, generation=3)
            self.went_on_from(run, version)
            self.assertRegex(
                run.log("ps_server-0"),
                r'event=generation_over generation=2 .*reason="shard 1: .*'
                r'cannot be read: open: Input/output error; tried for 500ms')

    def test_inspect_says_that_it_cannot_read_not_that_it_is_damaged(self):
        run = harness.train(self.job, *harness.sets(
            ["stop.updates=10", "checkpoint.every_updates=5"]))
        with self.disk.faults(f"fail EIO read {run.dir}/checkpoints/1-10"):
            result = harness.tool("inspect", run.dir, env=self.disk.env)
        self.assertEqual(result.returncode, 1)
        self.assertIn("1-10/manifest: cannot be read: open: Input/output error",
                      result.stderr)
        self.assertNotIn("passed over", result.stderr)

    # ---- Which run it is ----

    def lead(self, folder, *args):
        """Starts shard 0 by hand with --resume. Returns its exit status and
        output."""
        result = subprocess.run(
            [harness.PS_SERVER, f"--job={self.job}", "--shard=0", "--resume",
             "--listen=127.0.0.1:0", f"--run-dir={folder}", *args,
             *harness.sets(["limits.storage_timeout_s=0.2", *SYNC])],
            capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        return result.returncode, result.stderr

    def test_a_known_run_does_not_begin_in_an_empty_folder(self):
        folder = harness.scratch()
        code, said = self.lead(folder, "--run-id=mine")
        self.assertEqual(code, 75, said)
        self.assertIn("holds no commit_log, expected that of run mine: is the "
                      "folder there, and mounted?", said)
        self.assertEqual(list(folder.iterdir()), [])

    def test_a_known_run_does_not_go_on_in_the_folder_of_another(self):
        run = harness.train(self.job, *harness.sets(SYNC), "--run-id=theirs")
        self.assertIn("run id theirs", run.result.stdout)
        code, said = self.lead(run.dir, "--run-id=mine")
        self.assertEqual(code, 1, said)
        self.assertIn("holds run theirs, expected run mine", said)
        result = harness.tool("train", self.job, *harness.sets(SYNC),
                              "--resume", run.dir, "--run-id=mine")
        self.assertEqual(result.returncode, 2)
        self.assertIn("holds run theirs, expected run mine", result.stderr)

    def test_without_an_id_a_run_that_begins_anew_says_so(self):
        folder = harness.scratch()
        log = folder.with_name("lead.log").open("w")
        lead = subprocess.Popen(
            [harness.PS_SERVER, f"--job={self.job}", "--shard=0", "--resume",
             "--listen=127.0.0.1:0", f"--run-dir={folder}"], stderr=log)
        try:
            status = harness.wait_until(
                lambda: harness.tool("status", folder, "--json").stdout,
                "the lead to answer", lead)
            said = pathlib.Path(log.name).read_text()
        finally:
            lead.kill()
            lead.wait()
        self.assertRegex(said, r"event=new_run run_id=[0-9a-f]{16} ")
        self.assertIn(said.split("run_id=")[1][:16], status)

    def test_a_run_folder_that_is_away_is_not_begun_anew(self):
        with self.start("limits.storage_timeout_s=1") as run:
            self.await_checkpoint(run)
            with self.disk.faults(f"hide read {run.dir}/commit_log"):
                run.signal("ps_server-1", signal.SIGKILL)
                output = run.end()
            self.assertEqual(run.process.returncode, 1, output)
            self.assertIn("holds no commit_log, expected that of run", output)

    # ---- Who may read it ----

    def modes(self, *args):
        """The permissions of all files that a run has left."""
        run = harness.train(self.job, *harness.sets(
            ["stop.updates=10", "checkpoint.every_updates=5"]), "--timeline",
            *args)
        found = {"": stat.S_IMODE(os.stat(run.dir).st_mode)}
        for path in run.dir.rglob("*"):
            found[str(path.relative_to(run.dir))] = stat.S_IMODE(
                path.stat().st_mode)
        for name in ("weights.safetensors", "commit_log", "worker-0.log",
                     "timeline.json", "checkpoints/1-10/manifest",
                     "checkpoints/1-10/shard-1.safetensors"):
            self.assertIn(name, found)
        return run.dir, found

    def test_nobody_else_may_read_a_run(self):
        folder, found = self.modes()
        for name, mode in found.items():
            expected = 0o700 if (folder / name).is_dir() else 0o600
            self.assertEqual(mode, expected, name)

    def test_a_job_lets_others_read_its_run(self):
        folder, found = self.modes("--set=output.mode=0640")
        for name, mode in found.items():
            expected = 0o750 if (folder / name).is_dir() else 0o640
            self.assertEqual(mode, expected, name)

    def test_a_mode_that_locks_its_owner_out_is_refused(self):
        for mode in ("0755", "0440", "rw"):
            result = harness.tool("check", self.job,
                                  f"--set=output.mode={mode}")
            self.assertEqual(result.returncode, 2)
            self.assertIn("output.mode: must be an octal number of 0600 to "
                          "0666 that lets the owner read and write, is "
                          f'"{mode}"', result.stderr)


if __name__ == "__main__":
    harness.main()
