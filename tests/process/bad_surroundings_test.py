#!/usr/bin/python3 -B
"""What surrounds a run may be missing, damaged, full or elsewhere. The message
names it and what was expected."""

import gzip
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
import unittest

import cluster
import faulty_disk
import harness
import tls_run

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


class BadSurroundingsTest(unittest.TestCase):

    def refused(self, *command, status):
        result = subprocess.run(
            command, capture_output=True, text=True, cwd=harness.scratch(),
            timeout=harness.TIMEOUT_S)
        self.assertEqual(result.returncode, status,
                         result.stdout + result.stderr)
        # A daemon's last line has it as a value.
        return result.stderr.replace('\\"', '"')

    def linear(self):
        return harness.write_job(harness.LINEAR_JOB)

    def test_a_gpu_that_is_not_there_is_named(self):
        run = harness.Run(self.linear(), *harness.sets(["worker.device=CUDA"]))
        if run.result.returncode == 0:
            self.skipTest("this machine has a GPU")
        self.assertEqual(run.result.returncode, 1)
        self.assertRegex(run.result.stderr,
                         r"worker\.device: no CUDA device: .*; "
                         r"there are CPU and REFERENCE")

    def test_a_gpu_number_that_is_not_there_is_named(self):
        run = harness.Run(self.linear(), *harness.sets(
            ["worker.device=CUDA", "worker.gpus=[1023]"]))
        self.assertEqual(run.result.returncode, 1)
        self.assertRegex(run.result.stderr,
                         r"worker\.gpus: no GPU 1023 among .*: 0 \(.*\)|"
                         r"worker\.device: no CUDA device: ")

    # ---- Files ----

    def test_a_truncated_gz_is_named(self):
        whole = (DATA / "train-images-idx3-ubyte.gz").read_bytes()
        short = harness.scratch() / "short.gz"
        short.write_bytes(whole[:len(whole) // 2])
        # The header is intact, so only a reader of the whole file notices.
        run = harness.Run(harness.LENET,
                          *harness.sets([f"data.idx.train_images={short}"]))
        self.assertEqual(run.result.returncode, 1)
        self.assertRegex(run.result.stderr, rf"{short}: .*(ends|truncated)")

    def test_a_file_of_another_kind_is_named(self):
        labels = harness.scratch() / "labels.gz"
        labels.write_bytes(gzip.compress(b"hello, world, this is no IDX"))
        message = self.refused(
            harness.TOOL, "check", harness.LENET,
            *harness.sets([f"data.idx.train_labels={labels}"]), status=2)
        self.assertIn(str(labels), message)

    def test_a_job_that_is_not_there_is_named(self):
        for command in ([harness.TOOL, "train", "nowhere.textproto"],
                        [harness.WORKER, "--worker=0",
                         "--job=nowhere.textproto"],
                        [harness.PS_SERVER, "--shard=0",
                         "--job=nowhere.textproto"]):
            self.assertIn("nowhere.textproto: no such file",
                          self.refused(*command, status=2))

    def test_a_job_that_the_system_cannot_read_is_tried_again(self):
        # It can be opened, and its first byte cannot be read.
        for command, status in (
                ([harness.TOOL, "check", "/proc/self/mem"], 2),
                ([harness.WORKER, "--worker=0", "--job=/proc/self/mem"], 75),
                ([harness.EVALUATOR, "--job=/proc/self/mem"], 75),
                ([harness.PS_SERVER, "--shard=0", "--job=/proc/self/mem"],
                 75)):
            self.assertIn("/proc/self/mem: cannot be read: Input/output error",
                          self.refused(*command, status=status))

    def test_a_folder_in_the_place_of_a_job_is_named(self):
        folder = harness.scratch()
        self.assertIn(f"{folder}: is a folder, expected a job file",
                      self.refused(harness.TOOL, "check", folder, status=2))

    def test_a_run_folder_that_cannot_be_made_is_named(self):
        file = harness.scratch() / "file"
        file.touch()
        self.assertIn(f"the run folder {file}/run: Not a directory",
                      self.refused(harness.TOOL, "train", self.linear(),
                                   "--run-dir", file / "run", status=2))
        self.assertIn(f"{file}/run: cannot be made: Not a directory",
                      self.refused(harness.PS_SERVER, "--shard=0",
                                   "--listen=127.0.0.1:0",
                                   f"--job={self.linear()}",
                                   "--set=limits.storage_timeout_s=0.2",
                                   f"--run-dir={file}/run", status=75))

    def test_a_log_that_may_not_grow_fails_the_run_and_is_named(self):
        folder = harness.scratch() / "run"

        def at_most_64_kib():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

        result = subprocess.run(
            [harness.TOOL, "train", self.linear(), "--run-dir", folder,
             *harness.sets(["stop.epochs=1000"])],
            capture_output=True, text=True, preexec_fn=at_most_64_kib,
            timeout=harness.TIMEOUT_S)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(f"the run failed: {folder}/commit_log: write: File too "
                      "large", result.stderr)

    # ---- Addresses ----

    def test_an_address_that_is_no_address_is_refused(self):
        job = f"--job={self.linear()}"
        for command in ([harness.WORKER, "--worker=0", job],
                        [harness.EVALUATOR, job]):
            self.assertIn(
                'cluster.coordinator: must be "host:port" or "[IPv6]:port" '
                'with a port of 0 to 65535, is "nonsense"',
                self.refused(*command, "--coordinator=nonsense", status=2))
        self.assertIn(
            '--coordinator: must be "host:port" or "[IPv6]:port" with a port '
            'of 0 to 65535, is "nonsense"',
            self.refused(harness.PS_SERVER, "--shard=1", job,
                         "--listen=127.0.0.1:0", "--coordinator=nonsense",
                         status=2))
        self.assertIn(
            "nonsense: is neither the folder of a run nor host:port",
            self.refused(harness.TOOL, "status", "nonsense", status=2))

    def test_a_coordinator_that_is_not_there_is_named(self):
        port = harness.reserve_port()
        at = f"--coordinator=127.0.0.1:{port}"
        job = f"--job={self.linear()}"
        for command in ([harness.WORKER, "--worker=0", job, at],
                        [harness.EVALUATOR, job, at],
                        [harness.PS_SERVER, "--shard=1", job, at,
                         "--listen=127.0.0.1:0"]):
            self.assertRegex(
                self.refused(*command,
                             *harness.sets(["limits.start_timeout_s=0.5"]),
                             status=75),
                rf"coordinator at 127.0.0.1:{port}: no answer for 0\.\d s "
                r"\(limits.start_timeout_s\); .*refused")

    def test_an_address_of_another_host_cannot_be_listened_on(self):
        self.assertIn(
            "cannot listen on 192.0.2.1:7000: the port is taken or the "
            "address is not this host's",
            self.refused(harness.PS_SERVER, "--shard=0",
                         f"--job={self.linear()}", "--listen=192.0.2.1:7000",
                         "--insecure", status=1))

    def test_who_does_not_come_is_named(self):
        message = self.refused(
            harness.PS_SERVER, "--shard=0", f"--job={self.linear()}",
            "--listen=127.0.0.1:0",
            *harness.sets(["limits.start_timeout_s=0.5"]), status=1)
        for part in ("shard 1", "worker 0", "worker 1", "evaluator"):
            self.assertIn(part, message.split("event=failed")[-1])

    # ---- A disk that is full or slow ----

    def test_a_full_disk_holds_the_run_until_there_is_room(self):
        disk = faulty_disk.FaultyDisk()
        with self.endless("limits.lease_s=2", env=disk.env) as run:
            run.await_version(5)
            with disk.faults(
                    f"in --shard=0 fail ENOSPC write {run.dir}/commit_log"):
                waits = run.await_status(
                    lambda s: s["waiting_for"].startswith("room on the disk"),
                    "the run to wait for room")
                # Before it writes again it cuts off what was half written.
                self.assertRegex(
                    waits["waiting_for"], f"{run.dir}/commit_log: "
                    "(write|truncate): No space left on device")
                # Longer than the leases, and no work is done in the meantime.
                later = self.look_for(run, seconds=5)
                self.assertEqual(later["version"], waits["version"])
                self.assertTrue(later["waiting_for"].startswith(
                    f"room on the disk: {run.dir}/commit_log: "), later)
            after = run.await_version(waits["version"] + 20)
            self.assertEqual(after["generation"], 1)
            self.ends_whole(run)

    def test_a_run_folder_that_stalls_costs_no_lease_and_no_generation(self):
        disk = faulty_disk.FaultyDisk()
        with self.endless("limits.lease_s=2", env=disk.env) as run:
            run.await_version(5)
            with disk.faults(f"in --shard=0 stall all {run.dir}"):
                run.await_status(
                    lambda s: s["waiting_for"].startswith("the disk, to take"),
                    "the run to wait for the disk")
                stalled = self.look_for(run, seconds=20)
            for worker in stalled["worker"]:
                self.assertNotIn(worker["state"], ("suspect", "dead"), stalled)
            after = run.await_version(stalled["version"] + 20)
            self.assertEqual(after["generation"], 1)
            for worker in after["worker"]:
                self.assertEqual(worker["incarnation"], 1, after)
            self.ends_whole(run)

    def look_for(self, run, seconds):
        """The status after this many seconds."""
        until = time.monotonic() + seconds
        return run.await_status(lambda _: time.monotonic() > until,
                                "time to pass")

    def ends_whole(self, run):
        run.interrupt()
        output = run.end()
        self.assertEqual(run.process.returncode, 0, output)
        books = harness.tool("ledger", run.dir)
        self.assertEqual(books.returncode, 0, books.stdout + books.stderr)

    # ---- Processes ----

    def endless(self, *overrides, env=None):
        return cluster.Training(
            harness.write_job(harness.LINEAR_JOB.replace(
                "epochs: 2", "seconds: 600")), *harness.sets(overrides),
            env=env)

    def test_final_weights_wait_for_room_on_the_disk(self):
        disk = faulty_disk.FaultyDisk()
        with self.endless(env=disk.env) as run:
            run.await_version(5)
            weights = run.dir / "weights.safetensors"
            with disk.faults(f"fail ENOSPC write {weights}"):
                run.interrupt()
                harness.wait_until(
                    lambda: "event=not_saved" in run.log("evaluator"),
                    "the evaluator to lack room", run.process)
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertTrue(weights.exists())

    def test_an_evaluator_that_dies_is_started_again(self):
        with self.endless() as run:
            run.await_version(5)
            old = run.pids()["evaluator"]
            run.signal("evaluator", signal.SIGKILL)
            harness.wait_until(
                lambda: run.pids().get("evaluator", old) != old,
                "another evaluator", run.process)
            run.interrupt()
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertIn("evaluator: killed by signal 9 (Killed); starting "
                          "it again", output)
            self.assertIsNotNone(run.summary["weights_sha256"])
            self.assertTrue((run.dir / "weights.safetensors").exists())

    def test_a_run_that_is_started_with_sigchld_ignored_ends(self):
        with cluster.Training(
                self.linear(), preexec_fn=lambda: signal.signal(
                    signal.SIGCHLD, signal.SIG_IGN)) as run:
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)

    def lonely_lead(self, **kwargs):
        """Waits for the others of its run for a second, then ends with 1."""
        return subprocess.Popen(
            [harness.PS_SERVER, "--shard=0", "--listen=127.0.0.1:0",
             f"--job={self.linear()}",
             *harness.sets(["limits.start_timeout_s=1"])], text=True, **kwargs)

    def test_a_daemon_whose_log_nobody_reads_any_more_goes_on(self):
        with self.lonely_lead(stderr=subprocess.PIPE) as lead:
            lead.stderr.readline()
            lead.stderr.close()
            self.assertEqual(lead.wait(harness.TIMEOUT_S), 1)

    def test_a_daemon_may_be_started_without_stderr(self):
        with self.lonely_lead(preexec_fn=lambda: os.close(2)) as lead:
            self.assertEqual(lead.wait(harness.TIMEOUT_S), 1)

    def test_a_run_whose_output_nobody_reads_any_more_goes_on(self):
        with cluster.Training(self.linear()) as run:
            run.process.stdout.readline()
            run.process.stdout.close()
            self.assertEqual(run.process.wait(harness.TIMEOUT_S), 0)
            self.assertEqual(run.summary["epochs"], 2)

    def test_a_watch_that_nobody_reads_any_more_ends(self):
        with self.endless() as run:
            run.await_version(1)
            with subprocess.Popen(
                    [harness.TOOL, "status", run.dir, "--watch"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True) as watch:
                watch.stdout.readline()
                watch.stdout.close()
                self.assertEqual(watch.wait(harness.TIMEOUT_S), 0)
                self.assertEqual(watch.stderr.read(), "")
            run.interrupt()
            run.end()

    def test_a_run_that_this_user_may_not_read_is_said_to_be_one(self):
        run = harness.train(self.linear())
        run.dir.chmod(0)
        # Root may read all, unless it has given that up.
        as_user = [] if os.geteuid() else [
            "setpriv", "--bounding-set=-dac_override,-dac_read_search"]
        for command, status, said in (
                ("status", 2, "may not be read by this user"),
                ("ui", 2, "may not be read by this user"),
                ("inspect", 1, "may not be read by this user"),
                ("eval", 1, "may not be read by this user"),
                ("export-tensorboard", 1, "may not be read by this user"),
                ("goodput", 1, "may not be read by this user"),
                ("ledger", 1, "may not be read by this user"),
                ("check", 2, "job.textproto: Permission denied")):
            with self.subTest(command=command):
                path = run.dir / ("job.textproto" if command == "check" else "")
                self.assertIn(said, self.refused(
                    *as_user, harness.TOOL, command, path, status=status))
        for path in (run.dir, run.dir / "inside"):
            with self.subTest(command="plot", path=path):
                self.assertIn("may not be read by this user", self.refused(
                    *as_user, harness.TOOL, "plot", path, status=1))
        run.dir.chmod(0o700)

    def test_a_lead_that_can_take_no_connection_hears_of_ctrl_c(self):
        few = (24, 24)  # The lead of this job needs some 80.
        with cluster.Training(
                self.linear(), preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_NOFILE, few)) as run:
            harness.wait_until(
                lambda: (run.dir / "ps_server-0.log").exists() and
                "event=connection_refused" in run.log("ps_server-0"),
                "the lead to refuse connections", run.process)
            run.interrupt()
            began = time.monotonic()
            output = run.end()
            self.assertLess(time.monotonic() - began, 60)  # Of 300 s.
        self.assertIn("the coordinator does not answer", output)
        self.assertRegex(output, r"a process here may have 24 \(ulimit -Hn\)"
                         "\nwarning: +a process that needs more")

    def test_a_run_does_not_wait_for_an_evaluator_that_cannot_start(self):
        certs = tls_run.certs(harness.scratch() / "certs")
        others = tls_run.certs(harness.scratch() / "others")
        shutil.copy(others / "evaluator/tls.key", certs / "evaluator/tls.key")
        began = time.monotonic()
        result = harness.Run(self.linear(), f"--tls={certs}").result
        self.assertLess(time.monotonic() - began, 60)  # Of 300 s.
        self.assertEqual(result.returncode, 1)
        self.assertRegex(
            result.stderr, "the run failed: evaluator: exit status 2: .*"
            "evaluator/tls.key: .*; the run does not begin without it\n")
        self.assertNotIn("starting it again", result.stderr)

    def test_a_shortage_is_waited_out_and_then_fails_naming_the_missing(self):
        with self.endless("sync.policy=K_SYNC", "sync.k=2",
                          "sync.shortage_timeout_s=1",
                          "limits.lease_s=2") as run:
            run.await_version(5)
            # Stopped instead of killed, because a killed process is started
            # again.
            run.signal("worker-1", signal.SIGSTOP)
            output = run.end()
            self.assertEqual(run.process.returncode, 1, output)
            self.assertRegex(output, "the run failed: .*worker 1")

    def test_when_the_last_worker_dies_for_good_the_run_fails(self):
        with self.endless() as run:
            run.await_version(5)
            output = run.kill_until_it_ends("worker-0", "worker-1")
            self.assertEqual(run.process.returncode, 1, output)
            self.assertIn("worker-1: killed by signal 9 (Killed); starting it "
                          "again", output)
            self.assertRegex(
                output, r"the run failed: worker-\d: killed by signal 9 "
                r"\(Killed\), for the 6th time in a row; no worker is left")


if __name__ == "__main__":
    harness.main()
