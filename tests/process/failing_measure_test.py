#!/usr/bin/python3 -B
"""A model process that trains, and fails in each evaluation."""

import unittest

import harness
from model_process_test import MEASURED, PROGRAM, write_job

FAILING = f"""
import sys
sys.path.insert(0, {str(PROGRAM.parent)!r})
from linear_model import model_process, prepare

def prepare_to_fail(description):
    if description.role == "evaluator":
        return lambda evaluation: 1 / 0
    return prepare(description)

model_process.serve(prepare_to_fail)
"""


class FailingMeasureTest(unittest.TestCase):

    def test_the_sixth_failure_in_a_row_is_that_of_the_evaluation(self):
        program = harness.scratch() / "failing.py"
        program.write_text(FAILING)
        run = harness.Run(write_job(), *MEASURED,
                          *harness.sets(["evaluation.every_epochs=0"]), "--",
                          "/usr/bin/python3", "-B", program)
        self.assertEqual(run.result.returncode, 1)
        self.assertRegex(run.result.stderr, "the run failed: evaluator: "
                         r"evaluation of version 20: the model process \(pid "
                         r"\d+, .*failing.py\) failed in the evaluation of "
                         "version 20: ZeroDivisionError: division by zero")
        log = (run.dir / "evaluator.log").read_text()
        self.assertEqual(log.count("event=life_over"), 5, log)
        self.assertEqual(log.count("event=evaluation_failed"), 1, log)
        # What was trained is not lost.
        self.assertTrue((run.dir / "weights.safetensors").exists())


if __name__ == "__main__":
    harness.main()
