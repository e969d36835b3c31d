#!/usr/bin/python3 -B
"""Model processes of the evaluator that fail in each evaluation, or stand
still in one, and an evaluation that is given up."""

import os
import signal
import unittest

import cluster
import harness
from model_process_test import MEASURED, PROGRAM, write_job

# Only the final one.
MEASURED_ONCE = MEASURED + harness.sets(["evaluation.every_epochs=0"])

FAILING = f"""
import sys
sys.path.insert(0, {str(PROGRAM.parent)!r})
from linear_model import model_process, prepare

def prepare_to_fail(description):
    if description.role == "evaluator":
        return lambda evaluation: None
    return prepare(description)

model_process.serve(prepare_to_fail)
"""


WAITING = f"""
import pathlib, sys, time
sys.path.insert(0, {str(PROGRAM.parent)!r})
from linear_model import measure, model_process, prepare

def measure_later(evaluation):
    while not pathlib.Path(sys.argv[1]).exists():
        evaluation.check()
        time.sleep(0.01)  # As a slow evaluation.
    return measure(evaluation)

def prepare_to_wait(description):
    is_evaluator = description.role == "evaluator"
    return measure_later if is_evaluator else prepare(description)

model_process.serve(prepare_to_wait)
"""


class FailingMeasureTest(unittest.TestCase):

    def test_the_second_failure_of_one_that_never_measured_is_final(self):
        program = harness.scratch() / "failing.py"
        program.write_text(FAILING)
        run = harness.Run(write_job(), *MEASURED_ONCE, "--",
                          "/usr/bin/python3", "-B", program)
        self.assertEqual(run.result.returncode, 1)
        self.assertRegex(run.result.stderr, "the run failed: evaluator: "
                         r"evaluation of version 20: the model process \(pid "
                         r"\d+, .*failing.py\) failed in the evaluation of "
                         "version 20: TypeError: a test loss is None, expected "
                         "a number")
        self.assertIn("/evaluator.log:\n", run.result.stderr)
        log = (run.dir / "evaluator.log").read_text()
        self.assertEqual(log.count("event=life_over"), 1, log)
        self.assertEqual(log.count("event=evaluation_failed"), 1, log)
        # What was trained is not lost.
        self.assertTrue((run.dir / "weights.safetensors").exists())

    def test_an_evaluator_that_leaves_does_not_wait_for_one_that_stands(self):
        with cluster.Training(write_job(100), *MEASURED_ONCE, *harness.sets(
                ["delays.compute.constant.ms=5"]), "--", PROGRAM) as run:
            run.await_version(2)
            evaluator = run.pids()["evaluator"]
            process = run.model_process("evaluator", PROGRAM)
            os.kill(process, signal.SIGSTOP)
            run.await_status(lambda s: "evaluate version 100" in
                             s.get("waiting_for", ""), "the final evaluation")
            os.kill(evaluator, signal.SIGTERM)
            harness.wait_until(lambda: "evaluator" not in run.pids(),
                               "the evaluator to end")
            self.assertIn("has said nothing for 5s in the evaluation of "
                          "version 100 and was killed", run.log("evaluator"))
            # What was given up is no failed evaluation.
            self.assertEqual(run.status()["phase"], "finishing")

    def test_an_evaluation_that_a_recovery_interrupts_has_not_failed(self):
        program, go = harness.scratch() / "waiting.py", harness.scratch() / "go"
        program.write_text(WAITING)
        with cluster.Training(write_job(), *MEASURED_ONCE, "--shards=2", "--",
                              "/usr/bin/python3", "-B", program, go) as run:
            run.await_status(lambda s: "evaluate version 20" in
                             s.get("waiting_for", ""), "the final evaluation")
            run.signal("ps_server-1", signal.SIGKILL)
            harness.wait_until(
                lambda: "event=new_life" in run.log("evaluator"),
                "the evaluator to join the next generation", run.process)
            go.touch()
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            log = run.log("evaluator")
            self.assertNotIn("event=evaluation_failed", log)
            self.assertEqual(log.count("event=evaluated version=20 "), 1, log)


if __name__ == "__main__":
    harness.main()
