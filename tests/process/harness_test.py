#!/usr/bin/python3 -B
"""The helpers that all process tests rely on."""

import io
import subprocess
import sys
import unittest

import cluster
import faulty_disk
import harness


# Behaves like a process in which a sanitizer finds something.
REPORT = ('echo "ERROR: AddressSanitizer: heap-use-after-free" '
          '> "${ASAN_OPTIONS##*log_path=}.$$"')


class HarnessTest(unittest.TestCase):

    def test_a_sanitizers_report_fails_the_test_that_started_the_process(self):
        def starts_one_and_is_content():
            subprocess.run(["/bin/sh", "-c", REPORT], check=True)

        runner = unittest.TextTestRunner(stream=io.StringIO(),
                                         resultclass=harness.Result)
        result = runner.run(
            unittest.FunctionTestCase(starts_one_and_is_content))
        self.assertEqual(len(result.failures), 1)
        self.assertIn("heap-use-after-free", result.failures[0][1])
        self.assertTrue(runner.run(unittest.FunctionTestCase(lambda: None))
                        .wasSuccessful(), "a report counts once")

    def test_the_report_tells_what_passed_failed_and_was_skipped(self):
        class Cases(unittest.TestCase):
            def test_fails(self):
                self.fail("why")

            def test_is_skipped(self):
                self.skipTest("SKIPPED: no GPU")

            def test_passes(self):
                pass

        result = unittest.TextTestRunner(
            stream=io.StringIO(), resultclass=harness.Result).run(
                unittest.defaultTestLoader.loadTestsFromTestCase(Cases))
        failed, skipped, passed = harness.report_of(result).iter("testcase")
        self.assertIn("why", failed.find("failure").text)
        self.assertEqual(skipped.find("skipped").get("message"),
                         "SKIPPED: no GPU")
        self.assertEqual(list(passed), [])
        self.assertGreaterEqual(float(passed.get("time")), 0)

    def test_a_case_whose_subtests_fail_is_reported_as_failed(self):
        class Cases(unittest.TestCase):
            def test_some(self):
                for part in "this", "that":
                    with self.subTest(part):
                        self.fail(f"why {part}")

        result = unittest.TextTestRunner(
            stream=io.StringIO(), resultclass=harness.Result).run(
                unittest.defaultTestLoader.loadTestsFromTestCase(Cases))
        report = harness.report_of(result)
        [case] = report.iter("testcase")
        for part in "this", "that":
            self.assertIn(f"why {part}", case.find("failure").text)
        self.assertEqual(report.getroot().get("failures"), "1")

    def test_the_daemons_are_those_of_the_configuration_that_is_tested(self):
        for daemon in (harness.TOOL, harness.PS_SERVER, harness.WORKER,
                       harness.EVALUATOR):
            code = daemon.read_bytes()
            for name in ("asan", "tsan"):
                self.assertEqual(f"__{name}_init".encode() in code,
                                 name == harness.SANITIZER, (daemon, name))

    def test_a_process_with_an_argument_that_is_no_utf8_hides_no_daemon(self):
        job = harness.write_job(harness.LINEAR_JOB)
        with subprocess.Popen([sys.executable, "-c", "input()", b"\xff"],
                              stdin=subprocess.PIPE) as other, \
                cluster.Training(job, *harness.sets(
                    ["stop.epochs=100000"])) as run:
            harness.wait_until(lambda: "ps_server-0" in run.pids(),
                               "the lead", run.process)
            other.communicate(b"\n", harness.TIMEOUT_S)

    def test_a_disk_fails_hides_and_stalls_as_it_is_told(self):
        folder = harness.scratch()
        (folder / "a").write_text("content")
        (folder / "b").write_text("content")
        disk = faulty_disk.FaultyDisk()

        def run(*command):
            return subprocess.run(command, cwd=folder, env=disk.env,
                                  capture_output=True, text=True)

        self.assertEqual(run("cat", "a").stdout, "content")
        with disk.faults(f"fail EIO read {folder}/a"):
            self.assertIn("Input/output error", run("cat", "a").stderr)
            self.assertEqual(run("cat", "b").stdout, "content")
            self.assertEqual(run("ls").stdout.split(), ["a", "b"])
            self.assertEqual(run("sh", "-c", "cat b > a").returncode, 0)
        with disk.faults(f"fail ENOSPC write {folder}"):
            self.assertEqual(run("cat", "a").stdout, "content")
            self.assertIn("No space left", run("cp", "a", "c").stderr)
            self.assertEqual(run("sync", "a").returncode, 0)
        with disk.faults(f"fail EIO write {folder}"):
            self.assertIn("Input/output error", run("sync", "a").stderr)
        with disk.faults(f"hide read {folder}/a"):
            self.assertIn("No such file", run("cat", "a").stderr)
            self.assertEqual(run("ls").stdout.split(), ["b"])
        with disk.faults(f"in a fail EIO read {folder}"):
            self.assertEqual(run("cat", "b").stdout, "content")
            self.assertIn("Input/output error", run("cat", "a").stderr)
        with disk.faults(f"stall read {folder}/a"):
            stalled = subprocess.Popen(["cat", "a"], cwd=folder, env=disk.env,
                                       stdout=subprocess.PIPE, text=True)
            self.assertEqual(run("cat", "b").stdout, "content")
            self.assertIsNone(stalled.poll())
        self.assertEqual(stalled.communicate()[0], "content")


if __name__ == "__main__":
    harness.main()
