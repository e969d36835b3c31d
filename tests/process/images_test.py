#!/usr/bin/python3 -B
"""data.jpeg: whole runs on a small tree of images (docs/data.md)."""

import json
import os
import re
import shutil
import subprocess
import unittest

import cluster
import harness

SCRIPT = harness.ROOT / "tools/make_image_tree.py"
JOB = re.findall(r"^```textproto\n(.*?)^```$",
                 (harness.ROOT / "docs/data.md").read_text(), re.M | re.S)[0]
SYNC = ["stop.updates=8", "evaluation.every_epochs=0"]
# Of tree().
CONTENTS = ("data.jpeg.contents={train_samples: 300 test_samples: 60 "
            "classes: 10}")


def tree(*args):
    folder = harness.scratch() / "images"
    subprocess.run([SCRIPT, folder, "--train", "300", "--test", "60", *args],
                   check=True)
    return folder


def train(folder, *overrides):
    """Trains the document's job on a tree."""
    return harness.Run(harness.write_job(JOB.replace('"images/', f'"{folder}/')),
                       *harness.sets(overrides))


class ImagesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tree()

    def test_the_bits_are_those_of_any_workers_threads_and_archives(self):
        tars = tree("--tar")
        hashes = {
            what: train(folder, *SYNC, *more).check().summary[
                "weights_sha256"]
            for what, folder, more in (
                ("folder", self.folder, []),
                ("one worker", self.folder,
                 ["cluster.workers=1", "data.sharding=DYNAMIC",
                  "data.jpeg.threads=1", "worker.micro_batch=32"]),
                ("dynamic", self.folder, ["data.sharding=DYNAMIC"]),
                ("tar files, two shards", tars, ["cluster.shards=2"]),
                # Of which the second reads labels alone.
                ("two stages", self.folder,
                 ["worker.group.pipeline_stages=2", "worker.micro_batch=32",
                  "data.jpeg.on_damage=FAIL"]))}
        self.assertEqual(hashes["folder"], hashes["tar files, two shards"])
        self.assertEqual(hashes["folder"], hashes["two stages"])
        self.assertEqual(hashes["one worker"], hashes["dynamic"])

    def test_it_learns_and_can_be_replayed(self):
        run = train(self.folder).check()
        self.assertGreater(run.summary["test_accuracy"], 0.4)
        replayed = harness.tool("replay", run.dir)
        self.assertEqual(replayed.returncode, 0, replayed.stderr)

    def test_damaged_images_fail_or_are_skipped_and_counted(self):
        folder = harness.scratch() / "damaged"
        shutil.copytree(self.folder, folder)
        images = sorted((folder / "train").glob("*/*.jpg"))
        for i, image in enumerate(images[::10]):
            image.write_bytes(b"" if i % 2 else image.read_bytes()[:300])
        next((folder / "test").glob("*/*.jpg")).write_bytes(b"")
        runs = [train(folder, *SYNC).check() for _ in range(2)]
        self.assertEqual(runs[0].summary["weights_sha256"],
                         runs[1].summary["weights_sha256"])
        logs = "".join(log.read_text() for log in runs[0].dir.glob("worker-*"))
        self.assertRegex(logs, r"event=sample_damaged reason=\S*.*\.jpg: ")
        self.assertRegex(logs, r"damaged_samples_total=[1-9]")
        self.assertEqual(runs[0].summary["test_logged"],
                         {"damaged_samples": 1})
        failed = train(folder, *SYNC, "data.jpeg.on_damage=FAIL").result
        self.assertNotEqual(failed.returncode, 0)
        self.assertRegex(failed.stdout + failed.stderr, r"/train/\S+\.jpg: ")

    def test_a_tar_file_that_is_replaced_ends_the_worker(self):
        folder = tree("--tar")
        job = harness.write_job(JOB.replace('"images/', f'"{folder}/'))
        with cluster.Training(job, *harness.sets([
                "stop={updates: 100000}", "evaluation.every_epochs=0",
                "cluster.workers=1", "data.sharding=DYNAMIC"])) as run:
            run.await_version(2)
            for tar in list(folder.glob("train/*.tar")):
                shutil.copy(tar, f"{tar}.new")
                os.replace(f"{tar}.new", tar)
            output = run.end()
            self.assertEqual(run.process.returncode, 1, output)
            said = r"\.tar: has been replaced or written to since it was listed"
            self.assertRegex(output, said)
            log = run.log("worker-0")
            self.assertRegex(log, said)
            self.assertNotIn("event=new_life", log)

    def test_who_reads_no_image_needs_no_folder(self):
        """The shard stands where no images are."""
        job, run_dir = harness.write_job(JOB), harness.scratch()
        lead = f"127.0.0.1:{harness.reserve_port()}"
        told = harness.sets([*SYNC, CONTENTS])
        here = ["env", "-C", self.folder.parent]
        away = ["env", "-C", harness.scratch()]
        flags = [f"--job={job}", *told]
        harness.run_together({
            "shard": [*away, harness.PS_SERVER, "--shard=0", *flags,
                      f"--listen={lead}", f"--run-dir={run_dir}"],
            "evaluator": [*here, harness.EVALUATOR, *flags,
                          f"--coordinator={lead}", f"--run-dir={run_dir}"],
            **{f"worker {w}": [*here, harness.WORKER, f"--worker={w}", *flags,
                               f"--coordinator={lead}"] for w in range(2)},
        }, run_dir)
        summary = json.loads((run_dir / "summary.json").read_text())
        self.assertEqual(summary["weights_sha256"], train(
            self.folder, *SYNC).check().summary["weights_sha256"])
        # `tool` runs in an empty folder.
        simulated = harness.tool(
            "simulate", job, *told, "--timing-only", "--set",
            "delays.compute.constant.ms=5")
        self.assertEqual(simulated.returncode, 0, simulated.stderr)
        refused = harness.tool("check", job)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("images/train", refused.stderr)

    def test_a_later_stage_decodes_no_image(self):
        """Its images have the names and classes of the first's, and nothing
        else."""
        away = harness.scratch()
        shutil.copytree(self.folder, away / "images")
        for image in away.glob("images/train/*/*.jpg"):
            image.write_bytes(b"no image")
        run_dir = harness.scratch()
        lead = f"127.0.0.1:{harness.reserve_port()}"
        link = f"unix-abstract:sluice-images-test-{os.getpid()}"
        here = ["env", "-C", self.folder.parent]
        flags = [f"--job={harness.write_job(JOB)}", *harness.sets([
            *SYNC, "cluster.workers=1", "sync.gradients_per_update=1",
            "worker.micro_batch=32",
            "worker.group.pipeline_stages=2", "data.jpeg.on_damage=FAIL"])]
        worker = [harness.WORKER, *flags, "--worker=0",
                  f"--coordinator={lead}"]
        harness.run_together({
            "shard": [*here, harness.PS_SERVER, "--shard=0", *flags,
                      f"--listen={lead}", f"--run-dir={run_dir}"],
            "evaluator": [*here, harness.EVALUATOR, *flags,
                          f"--coordinator={lead}", f"--run-dir={run_dir}"],
            "first": [*here, *worker, f"--listen={link}"],
            "second": ["env", "-C", away, *worker, "--member=1",
                       f"--upstream={link}"],
        }, run_dir)
        summary = json.loads((run_dir / "summary.json").read_text())
        self.assertEqual(summary["failure"], "")

    def test_check_says_what_the_folders_hold(self):
        job = harness.write_job(JOB.replace('"images/', f'"{self.folder}/'))
        checked = harness.tool("check", job)
        self.assertIn(f"--set '{CONTENTS}'", checked.stdout)
        self.assertNotIn("--set", harness.tool(
            "check", job, "--set", CONTENTS).stdout)

    def test_other_contents_are_refused(self):
        for wrong, said in (
                ("test_samples=61", "data.jpeg.contents.test_samples: is 61, "
                 "expected 60, the images that are there"),
                ("classes=9", "data.jpeg.contents.classes: is 9, but .*/trouser/"
                 ".* has label 9")):
            with self.subTest(wrong):
                failed = train(self.folder, *SYNC, CONTENTS,
                               f"data.jpeg.contents.{wrong}").result
                self.assertNotEqual(failed.returncode, 0)
                self.assertRegex(failed.stdout + failed.stderr, said)

    def test_a_tree_that_is_none_is_refused(self):
        folder = harness.scratch() / "wrong"
        shutil.copytree(self.folder, folder)
        (folder / "test/cow").mkdir()
        shutil.copy(next((folder / "test/bag").iterdir()), folder / "test/cow")
        refused = train(folder).result
        self.assertEqual(refused.returncode, 2)
        self.assertIn(f"{folder}/test/cow: is no class of the first training "
                      "folder, which has 10 (ankle-boot to trouser)",
                      refused.stderr)

    def test_a_tree_is_made_once_and_of_images_that_there_are(self):
        for args, expected in (
                ([self.folder], f"{self.folder}/train: expected a new folder"),
                ([self.folder / "more", "--test=10001"],
                 "--test: expected 1 to 10000, got '10001'")):
            result = subprocess.run([SCRIPT, *args], capture_output=True,
                                    text=True, check=False)
            self.assertEqual(result.returncode, 2)
            self.assertIn(expected, result.stderr)

    def test_a_label_without_an_output_is_refused(self):
        refused = train(self.folder,
                        "model.layer[7].dense.units=9").result
        self.assertEqual(refused.returncode, 2)
        self.assertRegex(
            refused.stderr,
            "the last layer must have 10 outputs or more, because "
            r"\S*/train/trouser/\S*\.jpg has label 9; it has 9")


if __name__ == "__main__":
    harness.main()
