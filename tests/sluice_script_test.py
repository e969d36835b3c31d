#!/usr/bin/python3 -B
"""Tests what ./sluice installs, builds and runs."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).parent.parent / "sluice"

# Records that it was called, and its arguments.
FAKE = '#!/bin/bash\necho "${0##*/} $*" >>"$CALLS"\n'


class SluiceScriptTest(unittest.TestCase):
    """Each test has a tree with only the script, and a PATH on which every
    program that installs or builds only records that it was called."""

    def setUp(self):
        self.root = pathlib.Path(
            tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.root)
        self.calls = self.root / "calls"
        shutil.copy(SCRIPT, self.root / "sluice")
        for name in ("apt-get", "bazel", "dpkg-query"):
            self.program(f"fakes/{name}", FAKE)
        self.program("fakes/sudo", '#!/bin/bash\nexec "$@"\n')
        (self.root / "tests").mkdir()
        (self.root / "tests/count_cases.py").write_text("")

    def program(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def build_the_tool(self):
        self.program("bazel-bin/cli/sluice", FAKE)

    def run_script(self, *args, home=None):
        """Returns the result, and the recorded calls, one per line."""
        result = subprocess.run(
            [self.root / "sluice", *args], capture_output=True, text=True,
            check=False, timeout=60,
            env={"CALLS": str(self.calls), "HOME": str(home or self.root),
                 "PATH": f"{self.root / 'fakes'}:/usr/bin:/bin"})
        called = (self.calls.read_text().splitlines()
                  if self.calls.exists() else [])
        return result, called

    def test_a_look_at_a_run_installs_and_builds_nothing(self):
        self.build_the_tool()
        for command in ("checkpoint", "eval", "export", "export-tensorboard",
                        "goodput", "inspect", "ledger", "status", "stop"):
            with self.subTest(command):
                self.calls.unlink(missing_ok=True)
                result, called = self.run_script(command, "runs/a-1", "--json")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(called, [f"sluice {command} runs/a-1 --json"])

    def test_a_look_without_the_built_tool_says_what_is_needed(self):
        result, called = self.run_script("status", "runs/a-1")
        self.assertEqual(result.returncode, 2)
        self.assertIn("status needs the built tool", result.stderr)
        self.assertIn("./sluice build //cli:sluice", result.stderr)
        self.assertEqual(called, [])

    def test_a_home_that_cannot_be_written_is_named(self):
        result, called = self.run_script("build", home=self.root / "sluice")
        self.assertEqual(result.returncode, 2)
        self.assertIn(f"what is built is kept in {self.root}/sluice/.cache/",
                      result.stderr)
        self.assertEqual(called, [])

    def test_a_training_installs_and_builds_before_it_runs(self):
        self.build_the_tool()
        result, called = self.run_script("train", "job.textproto")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(called[0].startswith("dpkg-query "), called)
        self.assertTrue(any(call.startswith("apt-get ") and "install" in call
                            for call in called), called)
        self.assertTrue(called[-2].startswith("bazel build "), called)
        self.assertEqual(called[-1], "sluice train job.textproto")

    def test_of_what_bazel_keeps_the_oldest_beyond_20_gb_goes_once_a_day(self):
        self.build_the_tool()
        kept = self.root / ".cache/sluice/bazel/cas"
        kept.mkdir(parents=True)
        now = time.time()

        def keep(name, hours):
            file = kept / name
            with file.open("w") as sparse:
                sparse.truncate(8 * 10**9)
            os.utime(file, (now - hours * 3600,) * 2)

        for name, hours in (("new", 1), ("of a day", 24), ("old", 48),
                            ("older", 72)):
            keep(name, hours)
        self.run_script("train", "job.textproto")
        self.assertEqual({file.name for file in kept.iterdir()},
                         {"new", "of a day"})
        keep("old", 48)
        self.run_script("train", "job.textproto")
        self.assertTrue((kept / "old").exists(), "looked twice on one day")
        os.utime(kept.parent / "trimmed", (now - 25 * 3600,) * 2)
        self.run_script("train", "job.textproto")
        self.assertFalse((kept / "old").exists())

    def bazel_words(self, *args):
        """The words of the `bazel test` command that `./sluice test` runs."""
        _, called = self.run_script("test", *args)
        lines = [line for line in called if line.startswith("bazel test ")]
        self.assertEqual(len(lines), 1, called)
        return lines[0].split()

    def test_tests_without_a_name_are_those_that_are_not_slow(self):
        words = self.bazel_words()
        self.assertIn("--test_tag_filters=-slow", words)
        self.assertIn("--build_tests_only", words)
        self.assertEqual(words[-1], "//...")

    def test_all_tests_are_all_and_everything_is_built(self):
        words = self.bazel_words("--all")
        self.assertNotIn("--test_tag_filters=-slow", words)
        self.assertNotIn("--build_tests_only", words)
        self.assertNotIn("--all", words)
        self.assertEqual(words[-1], "//...")

    def asked(self, *args):
        """What `./sluice test` says, whether Bazel's tests passed or not."""
        result, called = self.run_script("test", *args)
        return result, [line for line in called
                        if line.startswith(("bazel test ", "apt-get ", "try "))]

    def test_suites_that_are_not_asked_for_are_named_and_not_installed(self):
        result, called = self.asked()
        self.assertIn("SKIPPED suites: ./sluice test --with=browser,kubernetes,"
                      "podman,prometheus,slurm,systemd,tensorboard,torch,wheel",
                      result.stderr)
        self.assertNotIn("SLUICE_WITH", "".join(called))
        self.assertNotIn("python3-torch", "".join(called))

    def test_a_suite_that_is_asked_for_is_installed_and_told_to_the_tests(self):
        result, called = self.asked("--with=torch,browser", "//tests:a")
        self.assertIn("--with=kubernetes,podman,prometheus,slurm,systemd,"
                      "tensorboard,wheel", result.stderr)
        self.assertTrue(any(" install " in line and "python3-torch" in line and
                            "chromium-driver" in line for line in called))
        self.assertIn(" --test_env=SLUICE_WITH=browser,torch ", called[-1])
        self.assertTrue(called[-1].endswith(" //tests:a"), called)
        self.assertNotIn("--with", called[-1])

    def test_a_suite_of_a_host_is_tried_after_the_tests(self):
        self.program("deploy/slurm/try.sh", '#!/bin/bash\necho "try slurm" '
                     '>>"$CALLS"\nexit 1\n')
        result, called = self.asked("--with=slurm")
        self.assertTrue(called[-2].startswith("bazel test "), called)
        self.assertEqual(called[-1], "try slurm")
        self.assertEqual(result.returncode, 1)

    def test_a_suite_is_not_tried_after_ctrl_c(self):
        self.program("deploy/slurm/try.sh", FAKE)
        self.program("fakes/bazel", FAKE + '[[ $1 != test ]] || exit 8\n')
        result, called = self.asked("--with=slurm")
        self.assertTrue(called[-1].startswith("bazel test "), called)
        self.assertEqual(result.returncode, 130)

    def test_a_suite_that_there_is_not_is_refused_by_name(self):
        for names, named in (("torch,cuda", "cuda"), (",torch", "")):
            with self.subTest(names):
                result, called = self.asked(f"--with={names}")
                self.assertEqual(result.returncode, 2)
                self.assertIn("--with: expected some of browser,",
                              result.stderr)
                self.assertIn(f"got '{named}'", result.stderr)
                self.assertEqual(called, [])

    def test_a_test_that_is_named_runs_even_if_it_is_slow(self):
        words = self.bazel_words("--config=asan", "//tests/mutations/...")
        self.assertNotIn("--test_tag_filters=-slow", words)
        self.assertIn("--config=asan", words)
        self.assertEqual(words[-1], "//tests/mutations/...")


if __name__ == "__main__":
    unittest.main()
