#!/usr/bin/python3 -B
"""Every benchmark runs at a tiny size, and reports in the common format
(bench/report.h)."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import harness

BENCH = harness.ROOT / "bench"
ROW = {"what", "unit", "expected_from", "expected", "measured", "ratio"}


def command_of(path):
    """The command that runs the benchmark at `path`; None if it is not a
    benchmark."""
    if path.suffix == ".py" and path.stem != "report":
        text = path.read_text()
        tool = [f"--tool={harness.TOOL}"] if "args.tool" in text else []
        return [sys.executable, "-B", path, *tool]
    if not path.suffix and path.is_file() and os.access(path, os.X_OK):
        return [path]
    return None


def is_named_by_a_process(folder):
    """Whether the folder stands in a process's command line."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                return True
        except OSError:  # It has ended.
            continue
    return False


class BenchmarksTest(unittest.TestCase):

    def check(self, report, name):
        self.assertEqual(report["name"], name)
        self.assertTrue(report["question"].endswith("?"))
        self.assertTrue(report["rows"] or report["notes"])
        for row in report["rows"]:
            self.assertLessEqual(ROW, row.keys())
            self.assertGreater(row["expected"], 0)
            self.assertGreater(row["measured"], 0)
            self.assertAlmostEqual(row["ratio"],
                                   row["measured"] / row["expected"])

    def test_every_benchmark_reports_in_the_one_shape(self):
        commands = {path.stem: command_of(path)
                    for path in sorted(BENCH.iterdir()) if command_of(path)}
        self.assertGreaterEqual(len(commands), 5, commands)
        for name, command in commands.items():
            with self.subTest(name):
                result = subprocess.run(
                    [*command, "--tiny", "--json"], timeout=harness.TIMEOUT_S,
                    capture_output=True, text=True, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.check(json.loads(result.stdout), name)

    def test_other_exchanges_are_compared_with_what_their_option_says(self):
        for how, others in (
                ("--stream", {"plain sockets", "a gRPC stream", "FP32 by bytes"}),
                ("--tls", {"plain text", "a gRPC stream over TLS"}),
                ("--shared-memory", {"gRPC alone", "a minimal program"})):
            with self.subTest(how):
                result = subprocess.run(
                    [BENCH / "exchange", how, "--tiny", "--json"],
                    timeout=harness.TIMEOUT_S, capture_output=True, text=True,
                    check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                report = json.loads(result.stdout)
                self.check(report, "exchange")
                self.assertEqual(
                    {row["expected_from"] for row in report["rows"]}, others)

    def test_one_that_is_told_to_end_leaves_nothing_behind(self):
        for name, status, *flags in (
                ("storm.py", 143, "--minutes=5"),
                ("checkpoint.py", 143, "--units=16", "--seconds=300"),
                ("recovery.py", 143, "--units=16", "--every=300"),
                ("commit_log", -15, "--records=100000000"),
                ("images", -15, "--rounds=1000000")):
            with self.subTest(name):
                folder = harness.scratch()
                if not name.endswith(".py"):
                    flags.append(f"--folder={folder}")
                process = subprocess.Popen(
                    [*command_of(BENCH / name), *flags],
                    env={**os.environ, "TMPDIR": str(folder)})
                harness.wait_until(
                    lambda: any(list(folder.glob(f"**/{files}")) for files in
                                ("metrics.jsonl", "commit_log", "*.jpg")),
                    "it to begin", process)
                process.terminate()
                self.assertEqual(process.wait(harness.TIMEOUT_S), status)
                harness.wait_until(
                    lambda: not list(folder.iterdir()) and
                    not is_named_by_a_process(folder),
                    "what it has started and written to go")

    def test_the_runs_of_one_that_is_killed_end(self):
        for name, *flags in (("storm",), ("checkpoint", "--units=16"),
                             ("recovery", "--units=16"), ("chaos",),
                             ("policy_times",), ("policy_accuracy",),
                             ("scaling",), ("update_cost", "--mean-ms=100")):
            with self.subTest(name):
                folder = harness.scratch()
                process = subprocess.Popen(
                    [*command_of(BENCH / f"{name}.py"), *flags],
                    env={**os.environ, "TMPDIR": str(folder)})
                harness.wait_until(
                    lambda: list(folder.glob("**/metrics.jsonl")),
                    "a run to begin", process)
                process.kill()
                process.wait()
                harness.wait_until(lambda: not is_named_by_a_process(folder),
                                   "its runs to end")

    def test_an_exchange_over_tls_that_is_told_to_end_leaves_no_keys(self):
        process = subprocess.Popen(
            [BENCH / "exchange", "--tls", "--kib=4", "--seconds=300"])
        folder = pathlib.Path(f"/tmp/sluice_certificates_{process.pid}")
        harness.wait_until(lambda: (folder / "worker/tls.key").exists(),
                           "its certificates", process)
        process.terminate()
        self.assertEqual(process.wait(harness.TIMEOUT_S), -signal.SIGTERM)
        harness.wait_until(lambda: not folder.exists(), "them to go")

    def test_one_that_fails_leaves_nothing_behind(self):
        folder = harness.scratch()
        result = subprocess.run(
            ["sh", "-c", 'ulimit -f 100; exec "$@"', "-", BENCH / "commit_log",
             f"--folder={folder}"], preexec_fn=lambda: signal.signal(
                 signal.SIGXFSZ, signal.SIG_IGN), timeout=harness.TIMEOUT_S,
            capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr),
                         (1, "a record cannot be written\n"))
        self.assertEqual(list(folder.iterdir()), [])

    def test_scaling_from_two_workers_on_is_not_half_of_linear(self):
        result = subprocess.run(
            [*command_of(BENCH / "scaling.py"), "--json", "--workers=2",
             "--real-updates=4", "--virtual-workers=1"],
            timeout=harness.TIMEOUT_S, capture_output=True, text=True,
            check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        for row in json.loads(result.stdout)["rows"]:
            if row["what"].startswith("daemons"):
                self.assertEqual(row["measured"], 1, row)

    def test_why_a_run_was_refused_is_said(self):
        for name, flag, why in (
                ("policy_formulas", "--workers=1", "sync.k: must be "),
                ("policy_times", "--k=0", "sync.k: must be "),
                ("checkpoint", "--every=-1", "checkpoint.every_s: must be "),
                ("scaling", "--updates=2", "--updates: expected a whole number from 33"),
                ("storm", "--sync=nonsense", "nonsense")):
            with self.subTest(name):
                few = ["--workers=1", "--real-updates=4"] * (name == "scaling")
                result = subprocess.run(
                    [*command_of(BENCH / f"{name}.py"), flag, *few],
                    timeout=harness.TIMEOUT_S, capture_output=True, text=True,
                    check=False)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(why, result.stderr)

    def test_chaos_of_a_job_without_accuracy_is_refused(self):
        result = subprocess.run(
            [*command_of(BENCH / "chaos.py"), "--tiny",
             f"--job={harness.write_job(harness.LINEAR_JOB)}"],
            timeout=harness.TIMEOUT_S, capture_output=True, text=True,
            check=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("its evaluations measure no accuracy", result.stderr)
        self.assertNotIn("Traceback", result.stderr)

    def test_options_that_measure_nothing_are_refused(self):
        for name, *flags in (("images", "--rounds=0"), ("images", "--threads=0"),
                             ("images", "--images=-1"),
                             ("commit_log", "--records=-5"),
                             ("commit_log", "--between-checkpoints=0"),
                             ("exchange", "--tiny", "--pairs=0"),
                             ("exchange", "--tiny", "--tls", "--stream"),
                             ("exchange", "--tiny", "--tls", "--shared-memory")):
            with self.subTest(f"{name} {flags}"):
                result = subprocess.run(
                    [BENCH / name, *flags], timeout=harness.TIMEOUT_S,
                    capture_output=True, text=True, check=False)
                self.assertGreater(result.returncode, 100)  # CLI11's.
                self.assertIn(flags[-1].split("=")[0], result.stderr)

    def test_arguments_that_measure_nothing_are_refused(self):
        for name, flag, expected in (
                ("compute", "--rounds=0", "a whole number above 0, got '0'"),
                ("train", "--seconds=nan", "a number above 0, got 'nan'"),
                ("checkpoint", "--rounds=-1", "a whole number above 0, got '-1'"),
                ("policy_times", "--mean-ms=0", "a number above 0, got '0'"),
                ("scaling", "--real-updates=1", "2 or more, got 1"),
                ("pipeline", "--batch=12", "a multiple of 8, ")):
            with self.subTest(f"{name} {flag}"):
                result = subprocess.run(
                    [*command_of(BENCH / f"{name}.py"), flag],
                    timeout=harness.TIMEOUT_S, capture_output=True, text=True,
                    check=False)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(f"{flag.split('=')[0]}: expected {expected}",
                              result.stderr)

    def test_a_storm_in_a_folder_that_has_one_is_refused(self):
        folder = harness.scratch()
        (folder / "policySYNC").mkdir()
        result = subprocess.run(
            [*command_of(BENCH / "storm.py"), "--tiny", f"--folder={folder}"],
            timeout=harness.TIMEOUT_S, capture_output=True, text=True,
            check=False)
        self.assertEqual((result.returncode, result.stderr), (
            1, f"{folder}/policySYNC is there already, of another storm\n"))

    def kernels(self, *args):
        result = subprocess.run(
            [BENCH / "kernels", "--tiny", "--json", *args],
            timeout=harness.TIMEOUT_S, capture_output=True, text=True,
            check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.check(report, "kernels")
        return report

    def test_what_is_measured_on_a_gpu_is_measured_on_the_cpu_on_request(self):
        rows = {row["what"]: row for row in self.kernels("--mib=1")["rows"]}
        self.assertEqual(rows["relu backward"]["expected_from"],
                         "a copy of that size")
        self.assertEqual(rows["dense 4096 to 4096 forward"]["expected_from"],
                         "a large product")

    def test_without_a_gpu_its_operations_are_skipped_with_the_reason(self):
        if pathlib.Path("/proc/driver/nvidia").exists():
            self.skipTest("SKIPPED: this machine has an NVIDIA driver")
        report = self.kernels("--device=cuda")
        self.assertEqual(report["rows"], [])
        self.assertRegex(report["notes"][0], "^SKIPPED: no CUDA device: .")


if __name__ == "__main__":
    harness.main()
