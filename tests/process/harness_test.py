#!/usr/bin/python3 -B
"""What the process tests rest on."""

import io
import subprocess
import unittest

import harness


# What a process does in which a sanitizer finds something.
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

    def test_the_daemons_are_those_of_the_configuration_that_is_tested(self):
        for daemon in (harness.TOOL, harness.PS_SERVER, harness.WORKER,
                       harness.EVALUATOR):
            code = daemon.read_bytes()
            for name in ("asan", "tsan"):
                self.assertEqual(f"__{name}_init".encode() in code,
                                 name == harness.SANITIZER, (daemon, name))


if __name__ == "__main__":
    harness.main()
