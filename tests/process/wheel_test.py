#!/usr/bin/python3 -B
"""`./sluice wheel`, and a program that has the package from nowhere else."""

import os
import subprocess
import sys
import unittest

import harness
import model_process_test

PROGRAM = """
from sluice import model_process
import sluice
print("package", sluice.__file__, flush=True)

def prepare(description):
    def compute(task):
        task.gradient[:] = task.weights
        return 0.0
    return compute

model_process.serve(prepare)
"""


def run(*command):
    result = subprocess.run([str(word) for word in command], text=True,
                            capture_output=True, timeout=harness.TIMEOUT_S)
    if result.returncode != 0:
        raise AssertionError(f"{command}: {result.stdout}{result.stderr}")


@harness.suite("wheel")
class WheelTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = harness.scratch()
        run(harness.ROOT / "sluice", "wheel", folder)
        [wheel] = folder.glob("sluice-*-py3-none-any.whl")
        venv = folder / "venv"
        run(sys.executable, "-m", "venv", "--without-pip", venv)
        cls.python = venv / "bin/python3"
        run(sys.executable, "-m", "pip", "--python", cls.python, "install",
            "--no-deps", "--no-index", wheel)
        os.environ.pop("PYTHONPATH", None)

    def train(self, text):
        program = harness.scratch() / "program.py"
        program.write_text(text)
        return harness.Run(model_process_test.write_job(), "--workers=1",
                           "--set=stop={updates: 2}", "--", self.python,
                           program)

    def test_a_program_trains_with_the_installed_package(self):
        done = self.train(PROGRAM).check()
        self.assertEqual(done.summary["version"], 2)
        self.assertIn(f"package {self.python.parents[1]}",
                      (done.dir / "worker-0.log").read_text() + done.logs())

    def test_a_package_of_another_version_is_refused(self):
        failed = self.train("from sluice import model_process\n"
                            "model_process.__version__ = '9.9'\n" + PROGRAM)
        self.assertNotEqual(failed.result.returncode, 0)
        self.assertIn("the worker is of version 0.1.0, expected 9.9 as this "
                      "package", failed.logs())


if __name__ == "__main__":
    harness.main()
