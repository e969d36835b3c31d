#!/usr/bin/python3 -B
"""A run that was stopped or killed resumes from its newest whole checkpoint.
Under SYNC it ends with the bits of an undisturbed run, under the other
policies with the same number of mini-batches."""

import contextlib
import fcntl
import json
import os
import signal
import unittest

import cluster
import harness
import ledger
import pipeline_jobs

# Long enough to be killed in the middle: 400 updates of two mini-batches, with
# any number of workers.
LONG = ["stop.epochs=20", "sync.gradients_per_update=2",
        "checkpoint.every_updates=10"]
# Leaves time to observe a run before it ends. It changes no bit. The last of 12
# updates must come long after the first checkpoint, however long that takes.
SLOW = "--set=delays.compute.constant.ms=10"
SLOWER = "--set=delays.compute.constant.ms=150"


def kill_all(run):
    """Kills the launcher first, so that it neither logs nor acts any more."""
    pids = run.pids()
    run.process.kill()
    for pid in pids.values():
        with contextlib.suppress(ProcessLookupError):  # It has ended by itself.
            os.kill(pid, signal.SIGKILL)
    run.process.wait()
    harness.wait_until(lambda: not run.pids(), "the killed to be gone")


def checkpoints(folder):
    """The checkpoints that have a manifest, newest last."""
    return sorted(tuple(map(int, m.parent.name.split("-")))
                  for m in (folder / "checkpoints").glob("*/manifest"))


def resume(job, folder, *args):
    return harness.tool("train", job, "--resume", folder, *args)


class ResumeTest(unittest.TestCase):

    def killed(self, job, *args, version=55, slow=SLOW):
        """The folder of a run that was killed with kill -9 after `version`."""
        with cluster.Training(job, *args, slow) as run:
            run.await_version(version)
            harness.wait_until(lambda: checkpoints(run.dir), "a checkpoint",
                               run.process)
            kill_all(run)
            return run.dir

    def goes_on(self, job, folder, *args):
        """Resumes the run, which must succeed. Returns its summary and its
        output."""
        result = resume(job, folder, *args)
        self.assertEqual(result.returncode, 0,
                         result.stdout + result.stderr + "\n".join(
                             p.read_text()[-2000:]
                             for p in folder.glob("*.log")))
        return (json.loads((folder / "summary.json").read_text()),
                result.stdout)

    def replays(self, folder):
        result = harness.tool("replay", folder, "--json")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def balanced(self, folder, summary):
        """Checks that every task of every generation is counted once."""
        tasks = sum(len(ledger.Ledger(log).issued)
                    for log in ledger.logs(folder))
        self.assertEqual(sum(summary["gradients"].values()), tasks)
        books = harness.tool("ledger", folder, "--json")
        self.assertEqual(books.returncode, 0, books.stdout + books.stderr)
        counted = json.loads(books.stdout)["gradients"]
        self.assertEqual({name: counted[name] for name in summary["gradients"]},
                         summary["gradients"])

    def same_bits(self, job_text, sets, *others):
        job = harness.write_job(job_text)
        undisturbed = harness.train(job, *harness.sets(sets)).summary
        folder = self.killed(job, *harness.sets(sets))
        before = checkpoints(folder)[-1]
        summary, said = self.goes_on(job, folder, *harness.sets(sets), *others)
        self.assertIn(f"going on from version {before[1]} as generation 2",
                      said)
        for name in ("weights_sha256", "version", "samples", "test_loss"):
            self.assertEqual(summary[name], undisturbed[name], name)
        self.assertEqual(summary["gradients"]["applied"],
                         undisturbed["gradients"]["applied"])
        self.balanced(folder, summary)
        self.replays(folder)

    def test_momentum_on_other_numbers_of_workers_and_shards(self):
        self.same_bits(harness.LINEAR_JOB, LONG, "--workers=3", "--shards=3")

    def test_other_cuts_slots_and_shards(self):
        self.same_bits(
            pipeline_jobs.MLP,
            [*pipeline_jobs.LONG, *pipeline_jobs.stages(2, ["dense4"])],
            "--workers=4", "--shards=3", *harness.sets(
                ["worker.group={ pipeline_stages: 3 slots: 2 "
                 'cuts: ["batch_norm1", "dense6"] }']))

    def test_adam_with_batch_norm_and_dropout_on_one_shard(self):
        self.same_bits(harness.BATCH_NORM_JOB, LONG, "--workers=1",
                       "--shards=1")

    def test_a_schedule_of_the_rate_with_warm_up_and_local_steps(self):
        self.same_bits(harness.LINEAR_JOB, [
            *LONG, "schedule={ cosine { epochs: 20 } warmup_epochs: 10 }",
            "sync.local_steps=2", "checkpoint.every_updates=7"])

    def test_only_one_at_a_time_is_at_work_in_a_folder(self):
        job = harness.write_job(harness.LINEAR_JOB)
        sets = harness.sets(LONG)
        folder = self.killed(job, *sets)
        at_work = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(at_work, fcntl.LOCK_EX)
            refused = resume(job, folder, *sets)
        finally:
            os.close(at_work)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("another `sluice train` is at work in it", refused.stderr)
        _, output = self.goes_on(job, folder, *harness.sets(LONG[:2]))
        self.assertIn("the job has no `checkpoint`", output)

    def test_results_beyond_the_newest_checkpoint_are_not_replaced(self):
        job = harness.write_job(harness.LINEAR_JOB)
        sets = harness.sets(LONG)
        folder = self.killed(job, *sets)
        # Without checkpoints from here on.
        summary, _ = self.goes_on(job, folder, *harness.sets(LONG[:2]))
        weights = (folder / "weights.safetensors").read_bytes()
        refused = resume(job, folder, *sets)
        self.assertEqual(refused.returncode, 2)
        self.assertRegex(
            refused.stderr, f"the run has ended at version {summary['version']}"
            r", and its newest checkpoint is of version \d+: going on")
        self.assertEqual((folder / "weights.safetensors").read_bytes(), weights)
        (folder / "summary.json").unlink()
        again, _ = self.goes_on(job, folder, *sets)
        self.assertEqual(again["weights_sha256"], summary["weights_sha256"])

    def test_interrupted_twice_and_resumed_twice(self):
        job = harness.write_job(harness.LINEAR_JOB)
        sets = harness.sets(LONG)
        undisturbed = harness.train(job, *sets).summary
        with cluster.Training(job, *sets, SLOW) as run:
            run.await_version(40)
            run.interrupt()
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            first = run.summary["version"]
        # Nothing was lost, because the last version was stored.
        self.assertEqual(checkpoints(run.dir)[-1], (1, first))
        summary, _ = self.goes_on(job, run.dir, *sets,
                                  f"--set=stop.updates={first + 30}")
        self.assertEqual(summary["version"], first + 30)
        summary, said = self.goes_on(job, run.dir, *sets)
        self.assertIn(f"going on from version {first + 30} as generation 3",
                      said)
        self.assertEqual(summary["weights_sha256"],
                         undisturbed["weights_sha256"])
        self.balanced(run.dir, summary)
        self.replays(run.dir)

    def test_lenet(self):
        job = harness.LENET
        sets = ["stop.updates=12", "checkpoint.every_updates=2",
                "sync={ policy: SYNC gradients_per_update: 2 }",
                "data.batch_size=32"]
        undisturbed = harness.train(job, *harness.sets(sets)).summary
        folder = self.killed(job, *harness.sets(sets), version=5, slow=SLOWER)
        summary, _ = self.goes_on(job, folder, *harness.sets(sets),
                                  "--workers=3", "--shards=1")
        self.assertEqual(summary["weights_sha256"],
                         undisturbed["weights_sha256"])

    def test_the_other_policies_take_each_mini_batch_once(self):
        job = harness.write_job(harness.LINEAR_JOB)
        # Without k or max_k these follow from the number of workers.
        for policy, workers in (
                ("{ policy: K_SYNC k: 2 }", 4),
                ("{ policy: K_BATCH_ASYNC k_schedule { adaptive { "
                 "max_k: 4 smoothing_updates: 5 } } }", 4),
                ("{ policy: K_SYNC }", 2),
                ("{ policy: K_ASYNC k_schedule { adaptive { "
                 "smoothing_updates: 5 } } }", 2)):
            sets = harness.sets([
                f"sync={policy}", "optimizer.learning_rate=0.005",
                "stop.epochs=20", "checkpoint.every_updates=10"])
            folder = self.killed(job, *sets, "--workers=3")
            summary, _ = self.goes_on(job, folder, *sets,
                                      f"--workers={workers}")
            self.assertEqual(summary["samples"], 20 * 1280)
            self.assertEqual(summary["gradients"]["applied"], 20 * 40)
            self.balanced(folder, summary)
            self.replays(folder)

    def test_what_is_damaged_is_named_and_passed_over(self):
        job = harness.write_job(harness.LINEAR_JOB)
        folder = self.killed(job, *harness.sets(LONG), version=60)
        kept = checkpoints(folder)
        self.assertGreaterEqual(len(kept), 2)
        newest = folder / "checkpoints" / "-".join(map(str, kept[-1]))
        shard = newest / "shard-1.safetensors"
        shard.write_bytes(shard.read_bytes()[:-1])
        # A checkpoint in the middle of being written: it has no manifest.
        (folder / "checkpoints/1-9999").mkdir()
        _, said = self.goes_on(job, folder, *harness.sets(LONG))
        self.assertIn(f"passed over: {shard}: has ", said)
        self.assertIn(f"passed over: {folder}/checkpoints/1-9999/manifest",
                      said)
        self.assertIn(f"going on from version {kept[-2][1]} ", said)

    def refused(self, result, words):
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertIn(words, result.stderr)

    def test_what_cannot_go_on_is_refused_with_the_reason(self):
        job = harness.write_job(harness.LINEAR_JOB)
        sets = harness.sets(["stop.epochs=1", "checkpoint.every_updates=10"])
        run = harness.train(job, *sets)
        self.refused(resume(job, run.dir, *sets),
                     "is the run's end: 1 epochs; a larger stop.epochs would "
                     "let it go on")
        self.refused(
            resume(job, run.dir, "--set", "stop.epochs=2", "--seed=7"),
            "the run has another job: seed: 7 here, 1 there")
        self.refused(resume(job, harness.scratch()),
                     "job.textproto: no such file")
        plain = harness.train(job, "--set", "stop.epochs=1")
        self.refused(resume(job, plain.dir, "--set", "stop.epochs=2"),
                     "has no whole checkpoint to go on from")
        # The run is unchanged and can be made longer.
        summary, _ = self.goes_on(job, run.dir, "--set", "stop.epochs=2")
        self.assertEqual(summary["epochs"], 2)

    def test_one_that_fails_at_its_start_leaves_the_earlier_results(self):
        job = harness.write_job(harness.LINEAR_JOB)
        sets = harness.sets(["checkpoint.every_updates=10"])
        folder = harness.train(job, *sets).dir
        programs = harness.scratch()
        for program in (harness.PS_SERVER, harness.EVALUATOR, harness.WORKER):
            path = programs / program.parent.name / program.name
            path.parent.mkdir(exist_ok=True)
            if program == harness.WORKER:
                path.write_text("#!/bin/sh\nexit 2\n")
                path.chmod(0o755)
            else:
                path.symlink_to(program)
        summary = folder / "summary.json"
        ended = summary.read_text()
        failed = json.dumps({**json.loads(ended),
                             "failure": "diverged: version 7"})
        summary.write_text(failed)
        result = resume(job, folder, *sets, "--set=stop.epochs=4", "--json",
                        f"--bin-dir={programs}")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, "")  # The summary is not its own.
        self.assertRegex(result.stderr,
                         r"the run failed: worker-\d: exit status 2; ")
        self.assertEqual(summary.read_text(), failed)
        # The books are those of 2 epochs, though the job says 4.
        summary.write_text(ended)
        books = harness.tool("ledger", folder)
        self.assertEqual(books.returncode, 0, books.stdout)

    def test_a_longer_run_leaves_out_no_mini_batch_of_a_short_task(self):
        job = harness.write_job(harness.LINEAR_JOB)
        sets = harness.sets(["sync={policy: ASYNC local_steps: 3}",
                             "stop.epochs=1", "checkpoint.every_updates=10"])
        run = harness.train(job, *sets)
        self.refused(resume(job, run.dir, *sets, "--set=stop.epochs=2"),
                     f"{run.dir}: version 14 has the last task of a run of 1 "
                     "epochs, with 1 mini-batches of sync.local_steps: 3; a "
                     "longer run would leave out 2 that follow")
        # 42 mini-batches are whole tasks.
        run = harness.train(job, *sets, "--set=stop.epochs=1.05")
        summary, _ = self.goes_on(job, run.dir, *sets, "--set=stop.epochs=2")
        self.assertEqual(summary["samples"], 2 * 1280)
        self.balanced(run.dir, summary)

    def test_a_run_that_has_not_ended_is_left_alone(self):
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "seconds: 600"))
        sets = harness.sets(["checkpoint.every_updates=10"])
        with cluster.Training(job, *sets) as run:
            run.await_version(5)
            self.refused(resume(job, run.dir, *sets),
                         "the run has not ended: its coordinator answers at")
            run.interrupt()
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)


if __name__ == "__main__":
    harness.main()
