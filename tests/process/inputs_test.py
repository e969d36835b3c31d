#!/usr/bin/python3 -B
"""The inputs of a run besides its job (initial weights, the contents of the
data, augmentation), and `sluice eval` and `inspect`, which examine its
results."""

import json
import os
import pathlib
import re
import struct
import subprocess
import unittest

import numpy as np

import harness

# Images of 6 x 6 pixels, in files whose names are relative to the daemons'
# folder.
IMAGES_JOB = """
name: "images"
cluster { workers: 2 shards: 2 }
sync { policy: SYNC }
optimizer { learning_rate: 0.05 }
data {
  idx { train_images: "images" train_labels: "labels"
        test_images: "images" test_labels: "labels" }
  batch_size: 20
}
model { layer { flatten {} } layer { name: "fc" dense { units: 10 } } }
stop { updates: 10 }
limits { start_timeout_s: 60 }
"""


def write_images(folder, changed=None):
    """Writes 200 images and labels. Pixel `changed`, if given, has another
    value."""
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, 200 * 36, dtype=np.uint8)
    labels = random.integers(0, 10, 200, dtype=np.uint8)
    if changed is not None:
        pixels[changed] ^= 1
    (folder / "images").write_bytes(
        struct.pack(">4I", 0x803, 200, 6, 6) + pixels.tobytes())
    (folder / "labels").write_bytes(
        struct.pack(">2I", 0x801, 200) + labels.tobytes())


def write_weights(path, tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        raw = np.asarray(value, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(np.shape(value)),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def some_weights(seed=1):
    random = np.random.default_rng(seed)
    # In an order that is not the layout's, as in files of other tools.
    return {"fc.bias": random.normal(size=10) / 10,
            "fc.weight": random.normal(size=(10, 36)) / 10}


class Daemons:
    """Daemons that are started by hand, each with its log. Killed at the end.
    """

    def __init__(self):
        self.processes = []
        self.logs = harness.scratch()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def start(self, binary, cwd, *args):
        log = self.logs / str(len(self.processes))
        with log.open("w") as stderr:
            process = subprocess.Popen([binary, *map(str, args)], cwd=cwd,
                                       stderr=stderr)
        self.processes.append(process)
        return process, log

    def end(self, process, log):
        """Waits for the end. Returns exit status and log."""
        return process.wait(timeout=harness.TIMEOUT_S), log.read_text()


class InitialWeightsTest(unittest.TestCase):

    def setUp(self):
        self.folder = harness.scratch()
        write_images(self.folder)
        self.job = self.folder / "job.textproto"
        self.job.write_text(IMAGES_JOB)
        self.init = ["model.init_from=init.safetensors"]

    def tool(self, *args):
        return subprocess.run([harness.TOOL, *map(str, args)],
                              capture_output=True, text=True, cwd=self.folder,
                              timeout=harness.TIMEOUT_S)

    def train(self, name, *args):
        result = self.tool("train", self.job, "--run-dir", name, *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads((self.folder / name / "summary.json").read_text())

    def test_any_number_of_shards_starts_from_the_file(self):
        write_weights(self.folder / "init.safetensors", some_weights())
        overrides = harness.sets(self.init + ["sync.gradients_per_update=2"])
        alone = subprocess.run(
            [harness.REFERENCE_TRAIN, f"--job={self.job}", *overrides],
            capture_output=True, text=True, cwd=self.folder, check=True,
            timeout=harness.TIMEOUT_S).stdout.split()[-1]
        for shards in (1, 3):
            run = self.train(f"run{shards}", f"--shards={shards}", *overrides)
            self.assertEqual(run["weights_sha256"], alone)
        plain = self.train("plain", "--set", "sync.gradients_per_update=2")
        self.assertNotEqual(plain["weights_sha256"], alone)

    def test_a_run_goes_on_from_what_another_wrote(self):
        # The loss begins where the other run's ended, so its training is in the
        # file.
        first = self.train("first", "--set", "stop.epochs=30", "--set",
                           "stop.updates=150")
        onwards = self.train(
            "onwards", "--set", "model.init_from=first/weights.safetensors",
            "--set", "stop.updates=1", "--set", "optimizer.learning_rate=1e-6")
        self.assertAlmostEqual(onwards["test_loss"], first["test_loss"],
                               delta=1e-4)
        fresh = self.train("fresh", "--set", "stop.updates=1")
        self.assertGreater(fresh["test_loss"], first["test_loss"] + 0.1)

    def test_check_says_where_the_weights_come_from(self):
        write_weights(self.folder / "init.safetensors", some_weights())
        result = self.tool("check", self.job, *harness.sets(self.init))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("at version 0 from init.safetensors", result.stdout)

    def test_a_file_of_another_model_is_refused_before_anything_starts(self):
        weights = some_weights()
        weights["fc.weight"] = weights["fc.weight"][:, :35]
        write_weights(self.folder / "init.safetensors", weights)
        for command in ("check", "train"):
            result = self.tool(command, self.job, *harness.sets(self.init))
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn("model.init_from: init.safetensors: tensor fc.weight "
                          "has shape (10, 35) in 1400 bytes, expected (10, 36)"
                          " in 1440", result.stderr)
        self.assertFalse((self.folder / "runs").exists())

    def test_a_missing_file_is_named(self):
        result = self.tool("train", self.job, *harness.sets(self.init))
        self.assertEqual(result.returncode, 2)
        self.assertIn("model.init_from: init.safetensors", result.stderr)

    def test_two_shards_with_different_files_are_found_out(self):
        port = harness.reserve_port()
        with Daemons() as daemons:
            for shard, seed in ((0, 1), (1, 2)):
                folder = harness.scratch()
                write_images(folder)
                write_weights(folder / "init.safetensors", some_weights(seed))
                listen = f"127.0.0.1:{port if shard == 0 else 0}"
                last, log = daemons.start(
                    harness.PS_SERVER, folder, f"--shard={shard}",
                    f"--job={self.job}", f"--listen={listen}",
                    f"--coordinator=127.0.0.1:{port}",
                    *harness.sets(self.init))
                if shard == 0:  # The second one to join is refused.
                    harness.wait_until(
                        lambda: 'peer="shard 0"' in log.read_text(),
                        "shard 0 to join", last)
            status, log = daemons.end(last, log)
        self.assertEqual(status, 1, log)
        self.assertRegex(log, r"shard 1: initial weights is .?\"sha256 "
                         r"[0-9a-f]{64}.?\" here, .?\"sha256 [0-9a-f]{64}.?\" "
                         r"at shard 0")


class DataTest(unittest.TestCase):

    def test_a_worker_whose_data_differs_in_one_bit_is_refused(self):
        port = harness.reserve_port()
        job = harness.write_job(IMAGES_JOB)
        folders = [harness.scratch(), harness.scratch()]
        write_images(folders[0])
        write_images(folders[1], changed=7199)
        address = f"--coordinator=127.0.0.1:{port}"
        with Daemons() as daemons:
            servers = [
                daemons.start(harness.PS_SERVER, folders[0],
                              f"--shard={shard}", f"--job={job}",
                              f"--listen=127.0.0.1:{listen}", address)
                for shard, listen in ((0, port), (1, 0))]
            daemons.start(harness.WORKER, folders[0], "--worker=0",
                          f"--job={job}", address)
            lead, log = servers[0]
            harness.wait_until(lambda: 'peer="worker 0"' in log.read_text(),
                               "worker 0 to join", lead)
            status, log = daemons.end(*daemons.start(
                harness.WORKER, folders[1], "--worker=1", f"--job={job}",
                address))
            self.assertEqual(status, 1, log)
            self.assertRegex(log, r"worker 1: training data is .?\"sha256 "
                             r"[0-9a-f]{64}.?\" here, .?\"sha256 [0-9a-f]{64}"
                             r".?\" at worker 0")
            # With the right data it is accepted, and the run goes to its end.
            daemons.start(harness.WORKER, folders[0], "--worker=1",
                          f"--job={job}", address)
            status, log = daemons.end(*daemons.start(
                harness.EVALUATOR, folders[0], f"--job={job}", address))
            self.assertEqual(status, 0, log)


    def test_a_run_is_not_resumed_with_other_data(self):
        folder = harness.scratch()
        write_images(folder)
        job = harness.write_job(IMAGES_JOB.replace(
            'images: "', f'images: "{folder}/').replace(
            'labels: "', f'labels: "{folder}/') +
            "checkpoint { every_updates: 5 }")
        run = harness.train(job)
        before = run.summary
        write_images(folder, changed=7199)
        more = ["--resume", run.dir, *harness.sets(["stop.updates=20"])]
        refused = harness.tool("train", job, *more)
        self.assertEqual(refused.returncode, 1, refused.stdout)
        # Nothing has been trained: the run's results are still its own.
        self.assertEqual(run.summary, before)
        self.assertTrue((run.dir / "weights.safetensors").exists())
        self.assertRegex(run.logs(),
                         'worker 0: training data is .?"sha256 .*" here, '
                         '.?"sha256 .*" when the run began')
        write_images(folder)
        resumed = harness.tool("train", job, *more)
        self.assertEqual(resumed.returncode, 0, resumed.stderr + run.logs())
        self.assertEqual(run.summary["version"], 20)


class EvalTest(unittest.TestCase):

    def evaluated(self, run, *args):
        result = harness.tool("eval", run, *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def check(self, run, samples):
        found = json.loads(self.evaluated(run.dir, "--json"))
        for name in ("test_accuracy", "test_loss", "weights_sha256"):
            self.assertEqual(found[name], run.summary.get(name), name)
        self.assertEqual(found["test_samples"], samples)

    def test_it_finds_what_the_run_itself_found(self):
        run = harness.train(harness.LENET, "--set", "stop.updates=10")
        self.check(run, 10000)
        text = self.evaluated(run.dir)
        self.assertIn("test accuracy %.4f" % run.summary["test_accuracy"],
                      text)
        self.assertIn("10000 samples", text)

    def test_a_regression_has_no_accuracy(self):
        self.check(harness.train(harness.write_job(harness.LINEAR_JOB)), 64)

    def test_weights_that_the_run_did_not_end_with_are_said_to_be_others(self):
        run = harness.train(harness.write_job(harness.LINEAR_JOB))
        weights = run.dir / "weights.safetensors"
        changed = bytearray(weights.read_bytes())
        changed[-4] ^= 1
        weights.write_bytes(changed)
        result = harness.tool("eval", run.dir)
        self.assertEqual(result.returncode, 1)
        self.assertIn("64 samples", result.stdout)
        self.assertEqual(
            result.stderr, f"{weights}: has other weights than the run ended "
            f"with, {run.summary['weights_sha256']} (summary.json)\n")

    def refused(self, run):
        result = harness.tool("eval", run)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def test_what_is_no_finished_run_is_named(self):
        folder = harness.scratch()
        self.assertIn("/nowhere: no such folder", self.refused("/nowhere"))
        self.assertIn(f"{folder}: has no job.textproto", self.refused(folder))
        (folder / "job.textproto").write_text(harness.LINEAR_JOB)
        self.assertIn(f"{folder}: has no weights.safetensors: expected the "
                      "final weights; the run has not finished",
                      self.refused(folder))
        (folder / "weights.safetensors").write_bytes(b"cut")
        self.assertIn("weights.safetensors: has 3 bytes, expected at least 8",
                      self.refused(folder))


class InspectTest(unittest.TestCase):

    def refused(self, command, folder):
        """The tool's answer for a folder without a checkpoint."""
        out = folder / "out.safetensors"
        result = harness.tool(command, folder,
                              *([out] if command == "export" else []))
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, "")
        self.assertFalse(out.exists())
        return result.stderr

    def test_what_is_no_checkpoint_is_named(self):
        for command in "inspect", "export":
            folder = harness.scratch()
            self.assertIn(f"{folder}/none: is not there, expected a checkpoint's",
                          self.refused(command, folder / "none"))
            self.assertIn(f"{folder}: has neither a manifest, as a "
                          "checkpoint's folder, nor checkpoints",
                          self.refused(command, folder))
            (folder / "manifest").write_bytes(b"What somebody wrote")
            self.assertIn('manifest: is no manifest of a checkpoint: begins '
                          'with "What som", expected "SLUICECP"',
                          self.refused(command, folder))
            (folder / "manifest").unlink()
            (folder / "checkpoints/1-10").mkdir(parents=True)
            error = self.refused(command, folder)
            self.assertIn("passed over", error)
            self.assertIn("checkpoints/1-10/manifest: cannot be opened", error)
            self.assertIn(f"{folder}: has no whole checkpoint", error)

    def test_an_export_replaces_no_file_of_a_checkpoint_and_no_device(self):
        run = harness.train(harness.write_job(harness.LINEAR_JOB), *harness.sets(
            ["checkpoint.every_updates=40"])).dir
        [checkpoint] = (run / "checkpoints").iterdir()
        shard = checkpoint / "shard-0.safetensors"
        before = shard.read_bytes()
        for source in run, checkpoint:
            result = harness.tool("export", source, shard)
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"{shard}: lies in {run}/checkpoints, which is read: "
                          "expected a file elsewhere", result.stderr)
        result = subprocess.run([harness.TOOL, "export", ".", shard.name],
                                cwd=checkpoint, timeout=harness.TIMEOUT_S)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(shard.read_bytes(), before)
        pipe = harness.scratch() / "pipe"
        os.mkfifo(pipe)
        for target, is_what in (pipe, "a pipe"), (run, "a folder"):
            result = harness.tool("export", run, target)
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"{target}: is {is_what}, expected a regular file or "
                          "none", result.stderr)
        self.assertTrue(pipe.is_fifo())
        link = harness.scratch() / "link"
        link.symlink_to("weights.safetensors")
        self.assertEqual(harness.tool("export", run, link).returncode, 0)


class DamagedSummaryTest(unittest.TestCase):

    def test_it_is_named_and_not_taken_at_its_word(self):
        run = harness.train(harness.write_job(harness.LINEAR_JOB)).dir
        (run / "summary.json").write_text('{"version": "x", "seconds": 1}')
        damage = (f"{run}/summary.json: is damaged: version is of type string, "
                  "expected a count")
        for command in "status", "stop", "eval":
            with self.subTest(command):
                result = harness.tool(command, run)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(damage, result.stderr)
        # What it measured stands above.
        self.assertIn("test loss", result.stdout)
        self.assertIn("the weights are not compared with those that the run "
                      "ended with", result.stderr)


class StopTest(unittest.TestCase):

    def test_of_a_run_that_is_over_it_says_how_it_ended(self):
        run = harness.train(harness.write_job(harness.LINEAR_JOB)).dir
        self.assertEqual(harness.tool("stop", run).returncode, 0)
        summary = json.loads((run / "summary.json").read_text())
        (run / "summary.json").write_text(json.dumps(
            {**summary, "failure": "diverged: version 7"}))
        failed = harness.tool("stop", run)
        self.assertEqual(failed.returncode, 1, failed.stderr)
        self.assertIn("the run failed: diverged: version 7", failed.stdout)
        # As while it is resumed, until its new coordinator listens.
        (run / "addresses").unlink()
        resumed = harness.tool("stop", run)
        self.assertEqual(resumed.returncode, 1, resumed.stdout)
        self.assertIn("names no coordinator yet", resumed.stderr)


class StatusTest(unittest.TestCase):

    def test_what_has_left_no_summary_is_told_apart(self):
        job = harness.write_job(harness.LINEAR_JOB)
        real = harness.train(job).dir
        (real / "summary.json").unlink()
        self.assertIn("it was killed, hangs, or is on another network; one "
                      "that was killed has no checkpoint to go on from",
                      harness.tool("status", real).stderr)
        simulated = harness.scratch() / "simulated"
        done = harness.tool("simulate", job, "--run-dir", simulated,
                            "--set=delays.compute.constant.ms=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        (simulated / "summary.json").unlink()
        status = harness.tool("status", simulated)
        self.assertEqual(status.returncode, 1, status.stdout)
        self.assertIn("a simulation that was cut off",
                      status.stderr)


class InstructionsTest(unittest.TestCase):
    """worker.instruction_set: WIDEST, which is the default."""

    # With digests, by which replay sees what the workers computed with.
    OVERRIDES = ["cluster.shards=1", "evaluation.enabled=false",
                 "output.digest_every_updates=1"]
    HAS_AVX512 = "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text()

    def run_with(self, narrow, overrides=()):
        """The folder of a run in which workers `narrow` have AVX2 only."""
        folder = harness.scratch()
        lead = f"127.0.0.1:{harness.reserve_port()}"
        common = [f"--job={harness.write_job(harness.BATCH_NORM_JOB)}",
                  *harness.sets([*self.OVERRIDES, *overrides])]
        commands = {"ps_server-0": [harness.PS_SERVER, *common, "--shard=0",
                                    f"--listen={lead}", f"--run-dir={folder}"]}
        for worker in range(2):
            commands[f"worker-{worker}"] = [
                harness.WORKER, *common, f"--worker={worker}",
                f"--coordinator={lead}"]
        harness.run_together(
            commands, folder,
            {f"worker-{w}": {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
             for w in narrow})
        return folder

    def agreed(self, folder):
        said = re.findall(r"event=instructions_agreed set=(\w+)",
                          (folder / "ps_server-0.log").read_text())
        self.assertEqual(len(said), 1, said)
        return said[0]

    def weights(self, folder):
        """What replay computes, which must be what the workers did."""
        replay = harness.tool("replay", "--json", folder)
        self.assertEqual(replay.returncode, 0, replay.stdout + replay.stderr)
        return json.loads(replay.stdout)["weights_sha256"]

    def test_all_compute_with_what_the_narrowest_has(self):
        mixed = self.run_with(narrow=[1])
        self.assertEqual(self.agreed(mixed), "AVX2")
        fixed = self.run_with(narrow=[], overrides=[
            "worker.instruction_set=AVX2"])
        self.assertEqual(self.weights(mixed), self.weights(fixed))
        self.assertNotIn("instructions_agreed",
                         (fixed / "ps_server-0.log").read_text())

    def test_where_all_have_the_widest_it_is_that(self):
        widest = self.run_with(narrow=[])
        self.assertEqual(self.agreed(widest),
                         "AVX512" if self.HAS_AVX512 else "AVX2")
        self.weights(widest)


if __name__ == "__main__":
    harness.main()
