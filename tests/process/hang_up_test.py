#!/usr/bin/python3 -B
"""SIGHUP means the end of a terminal, which a run under nohup ignores. A
daemon with a log file opens its file again."""

import functools
import os
import signal
import subprocess
import unittest

import cluster
import harness

# 20 updates an epoch, slow enough to be interrupted in the middle.
UPDATES = 200
SETS = harness.sets(["stop.epochs=10", "delays.compute.constant.ms=10"])

# The ways in which `nohup` and a terminal's shell start a program.
IGNORED = functools.partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
BY_DEFAULT = functools.partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)


class HangUpTest(unittest.TestCase):

    def setUp(self):
        self.job = harness.write_job(harness.LINEAR_JOB)

    def start(self, on_hang_up):
        return cluster.Training(self.job, *SETS, preexec_fn=on_hang_up)

    def ended(self, run):
        output = run.end()
        self.assertEqual(run.process.returncode, 0, output)

    def test_a_run_under_nohup_goes_on_when_the_terminal_hangs_up(self):
        with self.start(IGNORED) as run:
            run.await_version(1)
            # Sent to the foreground process group, as by a terminal.
            os.killpg(run.process.pid, signal.SIGHUP)
            self.ended(run)
            self.assertEqual(run.summary["version"], UPDATES)

    def test_a_run_without_nohup_stops_cleanly_when_the_terminal_hangs_up(self):
        with self.start(BY_DEFAULT) as run:
            run.await_version(1)
            os.killpg(run.process.pid, signal.SIGHUP)
            self.ended(run)
            self.assertLess(run.summary["version"], UPDATES)
            self.assertIn("interrupted by the user", run.summary["reason"])

    def test_logs_that_were_moved_away_are_opened_anew(self):
        with self.start(IGNORED) as run:
            run.await_version(1)
            names = ["ps_server-0", "ps_server-1", "worker-0", "worker-1",
                     "evaluator"]
            for name in names:
                log = run.dir / f"{name}.log"
                log.rename(f"{log}.1")
                run.signal(name, signal.SIGHUP)
            for name in names:
                log = run.dir / f"{name}.log"
                harness.wait_until(
                    lambda: log.exists() and log.read_text(),
                    f"{name}'s new log", run.process)
            self.ended(run)
            self.assertEqual(run.summary["version"], UPDATES)
            for name in names:
                self.assertRegex(
                    run.log(name),
                    rf"^\d{{4}}-\d\d-\d\dT[\d:.]+Z info {name} "
                    "event=log_reopened ")
            # The new file has the lines about the end of the run.
            for name in names[2:]:
                self.assertIn("event=run_over", run.log(name))
                self.assertNotIn("event=run_over",
                                 (run.dir / f"{name}.log.1").read_text())

    def test_a_daemon_that_logs_to_stderr_ends_when_its_terminal_hangs_up(self):
        worker = subprocess.Popen(
            [harness.WORKER, f"--job={self.job}", "--worker=0",
             f"--coordinator=127.0.0.1:{harness.reserve_port()}"],
            stderr=subprocess.PIPE, text=True, preexec_fn=BY_DEFAULT)
        with worker:
            self.assertIn(" worker-0 ", worker.stderr.readline())
            worker.send_signal(signal.SIGHUP)
            self.assertEqual(worker.wait(harness.TIMEOUT_S), -signal.SIGHUP)


if __name__ == "__main__":
    harness.main()
