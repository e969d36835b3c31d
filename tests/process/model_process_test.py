#!/usr/bin/python3 -B
"""Workers whose gradients a model process computes: SYNC gives the same bits
for any number of workers and shards, and after the death of a process. The
evaluator of such a job saves the final weights, and measures by a process of
the same command."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import unittest

import cluster
import harness
from ledger import Ledger

sys.path.insert(0, str(harness.ROOT / "python"))
# pylint: disable=wrong-import-position
import sluice
from sluice import model_process

FEATURES = 40  # Of 41 weights two shards hold ranges of 32 and 9.
PROGRAM = harness.ROOT / "worker/external/testing/linear_model.py"
JOB = """
name: "external"
sync { policy: SYNC gradients_per_update: 2 }
optimizer { learning_rate: 0.02 sgd { momentum: 0.5 } }
data { external { train_samples: 100 } batch_size: 8 }
model {
  external {
    tensor { name: "linear.weight" shape: 1 shape: %d kind: WEIGHT }
    tensor { name: "linear.bias" shape: 1 kind: BIAS }
  }
  init_from: "%s"
}
limits { lease_s: 2 }
stop { updates: %d }
"""


def write_weights(path):
    """A .safetensors file: version 0 of the job."""
    header = json.dumps({
        "linear.weight": {"dtype": "F32", "shape": [1, FEATURES],
                          "data_offsets": [0, 4 * FEATURES]},
        "linear.bias": {"dtype": "F32", "shape": [1],
                        "data_offsets": [4 * FEATURES, 4 * FEATURES + 4]},
    }).encode()
    weights = [(j % 7 - 3) / 8 for j in range(FEATURES + 1)]
    path.write_bytes(struct.pack("<Q", len(header)) + header +
                     struct.pack(f"<{len(weights)}f", *weights))


def write_job(updates=20):
    weights = harness.scratch() / "weights.safetensors"
    write_weights(weights)
    return harness.write_job(JOB % (FEATURES, weights, updates))


def weights_sha256(run):
    """Of the run's final weights: those in weights.safetensors, which are also
    those of summary.json."""
    data = (run.dir / "weights.safetensors").read_bytes()
    (header,) = struct.unpack_from("<Q", data)
    floats = data[8 + header:]
    assert len(floats) == 4 * (FEATURES + 1), len(floats)
    digest = hashlib.sha256(floats).hexdigest()
    assert run.summary["weights_sha256"] == digest, run.summary
    return digest


# Of each role the second process fails before it is READY.
FAILS_ONCE = f"""
import pathlib, sys
sys.path.insert(0, {str(PROGRAM.parent)!r})
from linear_model import model_process, prepare

def prepare_but_once(description):
    with open(sys.argv[1] + description.role, "a+") as starts:
        starts.write("x")
        if starts.tell() == 2:
            raise MemoryError("the one before it still has it")
    return prepare(description)

model_process.serve(prepare_but_once)
"""

# An evaluation every six or seven updates.
MEASURED = harness.sets(["data.external.test_samples=30",
                         "evaluation.every_epochs=1"])


def metrics(run):
    return [json.loads(line) for line in
            (run.dir / "metrics.jsonl").read_text().splitlines()]


def memory(content):
    """A descriptor of it, as the worker shares memory."""
    descriptor = os.memfd_create("memory")
    os.write(descriptor, content)
    return descriptor


def task_message(number):
    return struct.pack("<IIIIQqdqqqII", model_process.TASK, 0, 0, 1, number,
                       number, 0.0, 1, 0, 0, 0, 0)


class TasksTest(unittest.TestCase):
    """sluice.model_process.Worker in this process, with a worker that only
    speaks the protocol."""

    def start(self):
        """The worker's end of the socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(ours.close)
        self.addCleanup(setattr, sys, "excepthook", sys.excepthook)
        self.addCleanup(setattr, model_process.Worker, "_taken", False)
        description = {
            "protocol": 1, "version": sluice.__version__, "job": "j", "seed": 1,
            "role": "worker", "worker": 0, "threads": 1, "batch_size": 1,
            "train_samples": 8, "test_samples": 0, "partitions": 1,
            "parameters": 1, "tensors": []}
        shared = [memory(bytes(4)), memory(bytes(4)),
                  memory(struct.pack("<qq", 1, 0)),
                  memory(json.dumps(description).encode())]
        socket.send_fds(ours, [struct.pack("<IIII", model_process.HELLO, 1, 1,
                                           1)], shared)
        for descriptor in shared:
            os.close(descriptor)
        os.environ[model_process.SOCKET_VARIABLE] = str(theirs.detach())
        return ours

    def test_a_loop_that_was_left_goes_on_with_the_next_task(self):
        link = self.start()
        worker = model_process.Worker()
        for number in 1, 2, 3:
            link.send(task_message(number))
            for task in worker.tasks():
                self.assertEqual(task.number, number)
                task.done(0.5)
                break
        link.send(struct.pack("<II", model_process.STOP, 0))
        self.assertEqual(list(worker.tasks()), [])
        self.assertEqual(list(worker.tasks()), [])
        said = [int.from_bytes(link.recv(64)[:4], "little") for _ in range(7)]
        self.assertEqual(said, [model_process.READY] + 3 * [
            model_process.FINAL, model_process.RESULT])

    def test_a_socket_that_was_not_passed_on_is_named(self):
        read, write = os.pipe()
        os.close(write)
        self.addCleanup(os.close, read)
        self.addCleanup(os.environ.pop, model_process.SOCKET_VARIABLE)
        self.addCleanup(setattr, model_process.Worker, "_taken", False)
        for number in read, 9999:
            os.environ[model_process.SOCKET_VARIABLE] = str(number)
            with self.assertRaises(SystemExit) as raised:
                model_process.Worker()
            self.assertEqual(
                str(raised.exception), f"descriptor {number} is no socket, "
                "expected the worker's (SLUICE_MODEL_SOCKET): what the worker "
                "started did not pass it on to this program (in Python "
                "subprocess.run(..., close_fds=False))")

    @unittest.skipUnless(hasattr(Exception, "add_note"), "Python 3.10")
    def test_the_worker_is_told_the_error_and_not_its_note(self):
        link = self.start()
        worker = model_process.Worker()
        worker._print = lambda *_: None
        for error, said in [(ValueError("the reason"), "ValueError: the reason"),
                            (SyntaxError("bad", ("a.py", 1, 1, "x", 1, 2)),
                             "SyntaxError: bad")]:
            error.add_note("see the manual")
            sys.excepthook(type(error), error, None)
            packet = link.recv(4096)
            self.assertEqual(packet[:16], struct.pack(
                "<IIQ", model_process.FAILED, 0, 0))
            self.assertEqual(packet[16:].decode(), said)

    def test_a_forked_process_takes_no_message_from_its_parent(self):
        link = self.start()
        worker = model_process.Worker()
        link.send(task_message(1))
        task = next(worker.tasks())
        link.send(struct.pack("<IIQ", model_process.CANCEL, 0, 1))
        child = os.fork()
        if child == 0:
            try:
                task.check()
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        with self.assertRaises(model_process.Cancelled):
            task.check()


class HeaderTest(unittest.TestCase):

    def test_the_header_for_cpp_needs_nothing_else(self):
        header = harness.ROOT / "worker/external/model_protocol.h"
        for compiler in ["g++", *filter(shutil.which, ["clang++"])]:
            compiled = subprocess.run(
                [compiler, "-std=c++17", "-fsyntax-only", "-x", "c++", "-"],
                input=f'#include "{header}"\n', capture_output=True, text=True,
                timeout=harness.TIMEOUT_S)
            self.assertEqual(compiled.returncode, 0, compiled.stderr)


class ModelProcessTest(unittest.TestCase):

    def train(self, *args, job=None):
        run = harness.train(job or write_job(), *args, "--", PROGRAM)
        self.assertEqual(run.summary["version"], 20)
        Ledger(run.dir / "commit_log").check(self)
        return weights_sha256(run)

    def test_sync_gives_the_same_bits_for_any_cluster(self):
        found = {}
        for workers in (1, 2):
            for shards in (1, 2):
                found[workers, shards] = self.train(
                    f"--workers={workers}", f"--shards={shards}")
        self.assertEqual(len(set(found.values())), 1, found)
        another = self.train("--seed=2")
        self.assertNotIn(another, found.values())

    def test_local_steps_give_the_same_bits_for_any_cluster(self):
        # 13 mini-batches an epoch, the last one short: tasks span epochs.
        steps = harness.sets(["sync.local_steps=3", "optimizer.averaging={}"])
        self.assertEqual(self.train("--workers=1", *steps),
                         self.train("--workers=2", "--shards=2", *steps))

    def test_it_learns_what_the_samples_follow(self):
        run = harness.train(write_job(400), "--", PROGRAM)
        self.assertLess(metrics(run)[-1]["loss"], 1)

    def test_a_program_gets_its_arguments_word_for_word(self):
        words = ["--tag=", "", "[1,2]", "--", "--job=x", "{}"]
        folder = harness.scratch()
        noting = folder / "noting.sh"
        noting.write_text('#!/bin/sh\n'
                          f'printf "%s\\0" "$@" > {folder}/argv.$$\n'
                          f'exec {PROGRAM}\n')
        noting.chmod(0o755)
        harness.train(write_job(), *MEASURED, "--workers=1", "--", noting,
                      *words)
        expected = "".join(f"{word}\0" for word in words)
        # Of the worker, and of the evaluator.
        self.assertEqual([noted.read_text() for noted in folder.glob("argv.*")],
                         2 * [expected])

    def disturbed(self, number):
        """The hash of a run of which one model process was sent a signal, and
        what the run's worker 1 said of it."""
        job = write_job(150)
        slow = harness.sets(["delays.compute.constant.ms=5",
                             "limits.task_deadline_s=3"])
        quiet = harness.train(job, "--workers=2", "--shards=2", "--", PROGRAM)
        with cluster.Training(job, "--workers=2", "--shards=2", *slow, "--",
                              PROGRAM) as run:
            run.await_version(5)
            os.kill(run.model_process("worker-1", PROGRAM), number)
            output = run.end()
            self.assertEqual(run.process.returncode, 0,
                             output + run.log("worker-1"))
            Ledger(run.dir / "commit_log").check(self)
            self.assertEqual(weights_sha256(run), weights_sha256(quiet))
            log = run.log("worker-1")
            self.assertRegex(log, "event=done .* model_restarts_total=1 ")
            return log

    def test_a_killed_model_process_is_started_again(self):
        log = self.disturbed(signal.SIGKILL)
        self.assertRegex(log, r"event=life_over reason=\"the model process "
                         r"\(pid \d+, .*linear_model.py\) was killed by "
                         r"signal 9 in task \d+")
        self.assertIn("event=new_life incarnation=2", log)

    def test_one_that_stands_still_is_killed_and_started_again(self):
        log = self.disturbed(signal.SIGSTOP)
        self.assertRegex(log, r"event=life_over reason=\"the model process "
                         r"\(pid \d+, .*\) has said nothing for 3s in task")
        self.assertIn("event=new_life incarnation=2", log)

    def test_one_that_cannot_be_started_again_at_once_is_tried_anew(self):
        job = write_job(200)
        program = harness.scratch() / "fails_once.py"
        program.write_text(FAILS_ONCE)
        quiet = harness.train(job, *MEASURED, "--", PROGRAM)
        with cluster.Training(
                job, "--workers=1", *MEASURED,
                "--set=delays.compute.constant.ms=5", "--", "/usr/bin/python3",
                "-B", program, f"{harness.scratch()}/starts-") as run:
            run.await_version(2)
            harness.wait_until(
                lambda: "event=evaluated" in run.log("evaluator"),
                "the first evaluation", run.process)
            for name in ("worker-0", "evaluator"):
                os.kill(run.model_process(name, program), signal.SIGKILL)
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            for name in ("worker-0", "evaluator"):
                log = run.log(name)
                self.assertIn("failed before it was ready: MemoryError: the "
                              "one before it still has it", log)
                self.assertEqual(log.count("event=life_over"), 2, log)
                self.assertEqual(log.count("event=new_life"), 1, log)
            self.assertIn(" model_restarts_total=2 ", run.log("worker-0"))
            self.assertEqual(weights_sha256(run), weights_sha256(quiet))

    def test_chaos_finds_the_same_bits_and_an_exact_ledger(self):
        # A worker's model process dies with it. The argument looks like a
        # worker's, and is the program's.
        run = harness.scratch() / "chaos"
        result = harness.tool(
            "chaos", write_job(150), "--workers=2", "--shards=2", "--seed=3",
            "--kills=5", "--stops=1", "--cuts=0", "--run-dir", run, "--json",
            *MEASURED, *harness.sets(["delays.compute.constant.ms=10",
                                      "limits.lease_s=1"]),
            "--", PROGRAM, "--worker=7")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        report = json.loads(result.stdout)
        killed = {act["part"].split("-")[0] for act in report["acts"]
                  if act["kind"] == "kill"}
        self.assertEqual(killed, {"worker", "ps_server"})
        self.assertEqual(report["disturbed"]["weights_sha256"],
                         report["undisturbed"]["weights_sha256"])
        refused = harness.tool("chaos", write_job())
        self.assertEqual(refused.returncode, 2)
        self.assertIn("expected -- COMMAND", refused.stderr)

    def test_without_test_samples_nothing_is_measured(self):
        run = harness.train(write_job(), "--", PROGRAM)
        weights_sha256(run)
        for name in ("test_loss", "test_accuracy", "test_version"):
            self.assertIsNone(run.summary[name])
        self.assertFalse(any("test_loss" in line for line in metrics(run)))
        self.assertIn("event=saved version=20", run.logs())

    def test_without_an_evaluator_nobody_saves_the_weights(self):
        run = harness.train(write_job(), "--set", "evaluation.enabled=false",
                            "--", PROGRAM)
        self.assertIsNone(run.summary["weights_sha256"])
        self.assertFalse((run.dir / "weights.safetensors").exists())

    def test_versions_are_measured_while_it_learns(self):
        run = harness.train(write_job(400), *MEASURED, "--", PROGRAM)
        measured = [line for line in metrics(run) if "test_version" in line]
        self.assertGreater(len(measured), 1)
        self.assertLess(measured[0]["test_version"], 400)
        self.assertEqual(measured[-1]["test_version"], 400)
        self.assertLess(measured[-1]["test_loss"], measured[0]["test_loss"])
        for name in ("test_version", "test_loss", "test_accuracy"):
            self.assertEqual(run.summary[name], measured[-1][name])
        self.assertGreater(run.summary["test_accuracy"], 0.5)
        self.assertIn(f"test accuracy {run.summary['test_accuracy']:.4f}",
                      run.result.stdout)
        weights_sha256(run)

    def test_what_the_program_logs_is_in_the_metrics_and_the_status(self):
        run = harness.train(write_job(40), *MEASURED, "--", PROGRAM, "log")
        shown = [line["logged"]["bias"] for line in metrics(run)
                 if "logged" in line]
        self.assertEqual(shown[-1], run.summary["logged"]["bias"])
        measured = [line for line in metrics(run) if "test_version" in line]
        bias = struct.unpack("<f", (run.dir / "weights.safetensors")
                             .read_bytes()[-4:])[0]
        self.assertEqual(measured[-1]["test_logged"], {"bias": bias})
        self.assertEqual(run.summary["test_logged"], {"bias": bias})
        # The moving average follows.
        self.assertGreater(abs(shown[-1]), 0)
        self.assertNotEqual(shown[-1], bias)

    def test_a_model_process_that_is_killed_in_an_evaluation(self):
        job = write_job(100)
        # Only the final one.
        measured = MEASURED + harness.sets(["evaluation.every_epochs=0"])
        quiet = harness.train(job, *measured, "--", PROGRAM)
        with cluster.Training(job, *measured, *harness.sets(
                ["delays.compute.constant.ms=5"]), "--", PROGRAM) as run:
            run.await_version(2)
            process = run.model_process("evaluator", PROGRAM)
            os.kill(process, signal.SIGSTOP)  # It will not get to its end.
            run.await_status(lambda s: "evaluate version 100" in
                             s.get("waiting_for", ""), "the final evaluation")
            os.kill(process, signal.SIGKILL)
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            log = run.log("evaluator")
            self.assertRegex(log, r"event=life_over reason=\"the model process "
                             r"\(pid \d+, .*linear_model.py\) was killed by "
                             r"signal 9 in the evaluation of version \d+")
            self.assertIn("event=new_life incarnation=2", log)
            self.assertEqual(weights_sha256(run), weights_sha256(quiet))
            for name in ("test_version", "test_loss", "test_accuracy"):
                self.assertEqual(run.summary[name], quiet.summary[name])

    def test_no_model_process_outlives_its_run(self):
        job = write_job(100000)
        with cluster.Training(job, "--workers=2", *MEASURED, "--",
                              PROGRAM) as run:
            run.await_version(2)
            processes = [run.model_process(name, PROGRAM)
                         for name in ("worker-0", "worker-1", "evaluator")]
            run.signal("worker-1", signal.SIGKILL)
            run.interrupt()
            run.end()
        for process in processes:
            harness.wait_until(
                lambda: not pathlib.Path(f"/proc/{process}").exists(),
                f"process {process} to end")

    def test_a_program_that_fails_is_named(self):
        run = harness.Run(write_job(), "--", PROGRAM.with_name(
            "faulty_model.py"), "prepare")
        self.assertNotEqual(run.result.returncode, 0)
        self.assertIn("failed before it was ready: FileNotFoundError: no "
                      "training data in /data", run.logs())

    def test_a_program_that_fails_in_its_first_task_is_tried_once_more(self):
        run = harness.Run(write_job(), "--workers=1", "--",
                          PROGRAM.with_name("faulty_model.py"), "compute")
        self.assertEqual(run.result.returncode, 1)
        self.assertRegex(run.result.stderr, r"the run failed: worker-0: .*")
        self.assertRegex(run.result.stderr,
                         r"failed in task \d+: ZeroDivisionError: division by")
        log = (run.dir / "worker-0.log").read_text()
        self.assertEqual(log.count("event=new_life"), 1, log)

    def test_a_child_that_fails_is_not_the_program(self):
        run = harness.train(write_job(), "--workers=1", "--", PROGRAM, "fork")
        self.assertIn("RuntimeError: only the helper has failed", run.logs())
        self.assertNotIn("event=life_over", run.logs())
        self.assertEqual(weights_sha256(run), self.train("--workers=1"))

    def test_a_command_and_a_model_process_belong_together(self):
        without = harness.Run(write_job())
        self.assertEqual(without.result.returncode, 2)
        self.assertIn("model.external: expected -- COMMAND",
                      without.result.stderr)
        needless = harness.Run(harness.write_job(harness.LINEAR_JOB), "--",
                               PROGRAM)
        self.assertEqual(needless.result.returncode, 2)
        self.assertIn("expected no -- COMMAND", needless.result.stderr)

    def test_what_computes_by_itself_refuses_the_job(self):
        simulated = harness.tool("simulate", write_job(), "--run-dir",
                                 harness.scratch() / "run", "--set",
                                 "delays.compute.constant.ms=5")
        self.assertNotEqual(simulated.returncode, 0)
        self.assertIn("external: only the model process of a worker",
                      simulated.stderr)
        advised = harness.tool("advise", write_job(), "--target-accuracy=0.9",
                               "--out", harness.scratch() / "advice", "--set",
                               "delays.compute.constant.ms=5")
        self.assertNotEqual(advised.returncode, 0)
        self.assertIn("model.external: only the model process of a worker "
                      "computes it; `simulate --timing-only` takes such a job",
                      advised.stderr)

    def test_check_shows_the_table(self):
        report = json.loads(harness.tool("check", write_job(),
                                         "--json").stdout)
        self.assertEqual([t["name"] for t in report["tensors"]],
                         ["linear.weight", "linear.bias"])
        self.assertEqual(report["weights"], FEATURES + 1)


if __name__ == "__main__":
    harness.main()
