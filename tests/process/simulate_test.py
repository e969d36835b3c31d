#!/usr/bin/python3 -B
"""A run in virtual time computes what the real daemons compute: under SYNC the
same bits, and a run folder that the other commands can read."""

import json
import resource
import subprocess
import unittest

import harness

DELAYS = ["delays.compute.exponential.mean_ms=5",
          "delays.latency.exponential.mean_ms=1"]


class SimulateTest(unittest.TestCase):

    def simulate(self, job, *args):
        folder = harness.scratch() / "run"
        result = harness.tool("simulate", job, "--run-dir", folder, "--json",
                              *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return folder, json.loads(result.stdout)

    def same_bits(self, job, overrides=(), cluster=("--workers=3",)):
        sets = harness.sets([*overrides, *DELAYS])
        folder, report = self.simulate(job, *cluster, *sets)
        real = harness.train(job, *cluster, *sets)
        self.assertEqual(report["version"], real.summary["version"])
        self.assertEqual(report["weights_sha256"],
                         real.summary["weights_sha256"])
        self.assertEqual((folder / "weights.safetensors").read_bytes(),
                         (real.dir / "weights.safetensors").read_bytes())
        return folder

    def test_sync_gives_the_bits_of_the_daemons_for_a_linear_model(self):
        job = harness.write_job(harness.LINEAR_JOB)
        self.same_bits(job)
        self.same_bits(job, ["sync.local_steps=3"])

    def test_sync_gives_the_bits_of_the_daemons_for_lenet(self):
        self.same_bits(harness.LENET,
                       ["sync.policy=SYNC", "sync.gradients_per_update=4",
                        "stop.updates=5"])

    def test_sync_gives_the_bits_of_the_daemons_with_batch_norm(self):
        self.same_bits(harness.write_job(harness.BATCH_NORM_JOB),
                       ["worker.micro_batch=20", "stop.epochs=1"])

    def test_eval_measures_a_simulated_run_as_any_other(self):
        job = harness.write_job(harness.LINEAR_JOB)
        folder, report = self.simulate(
            job, *harness.sets(["sync.policy=K_ASYNC", "sync.k=1", *DELAYS]))
        measured = json.loads(harness.tool("eval", folder, "--json").stdout)
        self.assertEqual(measured["weights_sha256"], report["weights_sha256"])
        self.assertEqual(measured["test_loss"], report["test_loss"])
        summary = json.loads((folder / "summary.json").read_text())
        self.assertEqual(summary["seconds"], report["virtual_seconds"])
        lines = [json.loads(line) for line in
                 (folder / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(lines[-1]["version"], report["version"])
        self.assertEqual(len([l for l in lines if "test_loss" in l]),
                         len(report["evaluations"]))

    def test_a_target_ends_the_run_and_its_time_is_told(self):
        job = harness.write_job(harness.LINEAR_JOB)
        folder, report = self.simulate(
            job, "--target-loss", "1",
            *harness.sets(["stop.epochs=100", *DELAYS]))
        reached = [e for e in report["evaluations"] if e["test_loss"] <= 1]
        self.assertEqual(report["time_to_target"], reached[0]["seconds"])
        self.assertLess(report["samples"], 100 * 1280)

    def test_pictures_of_the_run_are_those_of_plot(self):
        job = harness.write_job(harness.LINEAR_JOB)
        out = harness.scratch() / "pictures"
        folder, report = self.simulate(job, "--plot", out, *harness.sets(
            ["sync.policy=K_ASYNC", "sync.k=1", *DELAYS]))
        names = ["time", "version", "staleness", "timeline"]
        self.assertEqual(report["pictures"], [f"{out}/{n}" for n in names])
        drawn = harness.scratch() / "plots"
        result = harness.tool("plot", folder, "--label", "linear", "--out",
                              drawn)
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in names:
            self.assertTrue((out / f"{name}.png").exists())
            self.assertEqual((out / f"{name}.gnuplot").read_bytes(),
                             (drawn / f"{name}.gnuplot").read_bytes())

    def test_compute_times_of_daemons_can_be_simulated(self):
        job = harness.write_job(harness.LINEAR_JOB)
        real = harness.train(job, *harness.sets(
            ["sync.policy=ASYNC",
             "delays={compute {constant {ms: 4}} worker_factor: 3}"]))
        lines = [line.split() for line in
                 (real.dir / "compute_times.txt").read_text().splitlines()]
        self.assertEqual(len(lines), 80)
        for ms, worker in lines:
            # Compute time plus delay.
            self.assertGreater(float(ms), 12 if worker == "0" else 4)
        _, report = self.simulate(job, *harness.sets(
            ["sync.policy=ASYNC",
             f"delays.compute.trace.path={real.dir}/compute_times.txt"]))
        mean = [sum(float(m) for m, w in lines if w == worker) /
                sum(w == worker for _, w in lines) for worker in "01"]
        self.assertAlmostEqual(report["mean_update_time"],
                               1e-3 / (1 / mean[0] + 1 / mean[1]),
                               delta=0.1 * report["mean_update_time"])

    def test_a_run_that_makes_no_update_has_no_rates(self):
        job = harness.write_job(harness.LINEAR_JOB)
        late = harness.sets(["stop={updates: 3 seconds: 1}",
                             "delays.compute.constant.ms=10000"])
        _, report = self.simulate(job, *late)
        self.assertEqual(report["updates"], 0)
        for rate in ("mean_update_time", "mean_update_time_half_width_99",
                     "updates_per_second", "mean_staleness"):
            self.assertIsNone(report[rate], rate)
        self.assertEqual(report["started"], 2)
        self.assertEqual(len(report["pull_bytes"]), 2)
        result = harness.tool("simulate", job, "--run-dir",
                              harness.scratch() / "run", *late)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("time per update  no update\n", result.stdout)
        self.assertIn("by the formula   10 s\n", result.stdout)
        for nonsense in ("inf", "nan", "pull  MB/s", "measured / formula"):
            self.assertNotIn(nonsense, result.stdout)

    def test_a_run_folder_that_cannot_be_written_is_no_fault_of_the_job(self):
        job = harness.write_job(harness.LINEAR_JOB)
        result = subprocess.run(
            [harness.TOOL, "simulate", job, "--run-dir",
             harness.scratch() / "run", *harness.sets(DELAYS)],
            capture_output=True, text=True, timeout=harness.TIMEOUT_S,
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (256, 256)))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("File too large", result.stderr)

    def test_times_alone_say_of_which_part_of_the_run_they_are(self):
        job = harness.write_job(harness.LINEAR_JOB)
        for sync, k, said in (
                ("policy: K_SYNC k: 1", 1, ""),
                ("policy: K_SYNC k: 1 k_schedule { adaptive { max_k: 2 } }", 1,
                 "sync.k_schedule.adaptive: the times are those of the first "
                 "K, 1, as there are no losses for it to follow\n"),
                ("policy: K_SYNC k: 1 k_schedule { by_version { change { "
                 "from_version: 1000000 k: 2 } } } warm_start_updates: 5000", 2,
                 "sync.warm_start_updates: the times are those after the warm "
                 "start\nsync.k_schedule.by_version: the times are those of the "
                 "last K, 2\n")):
            result = harness.tool(
                "simulate", job, "--timing-only", "--json", "--updates=100",
                *harness.sets([f"sync={{{sync}}}",
                               "delays.compute.constant.ms=50"]))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr, said)
            times = json.loads(result.stdout)
            self.assertEqual(times["k"], k)
            self.assertAlmostEqual(times["mean_update_time"], 0.05)

    def test_what_cannot_be_simulated_is_refused(self):
        job = harness.write_job(harness.LINEAR_JOB)
        for args, said in ((("--target-accuracy", "0.5", *harness.sets(DELAYS)),
                            "labels"),
                           ((), "delays.compute: must be set"),
                           (("--timing-only", "--target-loss", "1"),
                            "--timing-only excludes --target-loss")):
            result = harness.tool("simulate", job, *args)
            self.assertEqual(result.returncode, 2, args)
            self.assertIn(said, result.stderr)


if __name__ == "__main__":
    harness.main()
