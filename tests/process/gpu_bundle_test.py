#!/usr/bin/python3 -B
"""`tools/gpu_bundle`: the packed programs run without the files they were
built from."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import harness

PACK = harness.ROOT / "tools/gpu_bundle/pack.py"
WITH_CUDA = (harness.ROOT / "kernels/cuda/libsluice_cuda.so").exists()
MOST_BYTES = 60e6


def run_bundle(folder, *args, **kwargs):
    return subprocess.run([folder / "run.py", *args], capture_output=True,
                          text=True, timeout=harness.TIMEOUT_S, check=False,
                          **kwargs)


@unittest.skipUnless(WITH_CUDA, "SKIPPED: built without a CUDA toolkit")
@unittest.skipIf(harness.SANITIZER, "SKIPPED: a sanitizer's programs are larger")
class GpuBundleTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = harness.scratch() / "bundle"
        cls.packed = subprocess.run(
            [PACK, "--built", cls.folder], capture_output=True, text=True,
            timeout=2 * harness.TIMEOUT_S, check=False)  # It compresses.
        assert cls.packed.returncode == 0, cls.packed.stderr

    def test_it_fits_and_leaves_out_cublas_and_cudnn(self):
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        self.assertLess(sum(path.stat().st_size for path in files), MOST_BYTES)
        contents = json.loads((self.folder / "contents.json").read_text())
        self.assertEqual([name.split(".so.")[0]
                          for name in contents["cuda_libraries"]],
                         ["libcublasLt", "libcudnn"])

    def test_a_job_of_the_bundle_trains_with_the_libraries_in_it(self):
        results = harness.scratch() / "results"
        ran = run_bundle(self.folder, "--only", "train", "--device=CPU",
                          "--epochs=0.1", f"--results={results}")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertRegex(ran.stdout, r"train_CPU_FP32 +accuracy 0\.\d+, \d+ samples/s")
        # The loader would report these first.
        worker = results / "programs/worker/worker"
        listed = subprocess.run(
            ["ldd", worker], capture_output=True, text=True, check=True,
            env={"LD_LIBRARY_PATH": str(results / "programs/lib")}).stdout
        self.assertIn(f"{results}/programs/lib/libgrpc++.so", listed)

    def test_quick_runs_the_cases_that_are_for_a_gpu(self):
        ran = run_bundle(self.folder, "--only", "tests", "--quick",
                         "--device=CPU", f"--results={harness.scratch()}/quick")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        tests = json.loads((self.folder / "contents.json").read_text())["tests"]
        for test in tests:
            if test.endswith("/cuda_object_test"):
                continue  # Without a GPU it tests that its lack is named.
            self.assertRegex(
                ran.stdout, rf"(?m)^{test.rsplit('/', 1)[1]} +0 passed, "
                            r"0 failed, [1-9]\d* skipped$")

    def test_python_runs_with_its_own_libraries(self):
        folder = harness.scratch()
        python = folder / "python3"
        python.write_text(f'#!/bin/sh\necho "<$LD_LIBRARY_PATH>" >>{folder}/seen\n'
                          f'exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        ran = run_bundle(self.folder, "--only", "overlap", "--device=CPU",
                         "--tiny", f"--results={folder}/measured",
                         env={**os.environ, "LD_LIBRARY_PATH": "",
                              "PATH": f"{folder}:{os.environ['PATH']}"})
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertEqual(set((folder / "seen").read_text().split()), {"<>"})

    def test_the_benchmarks_of_the_bundle_find_all_they_need(self):
        ran = run_bundle(self.folder, "--only", "overlap", "torch", "kernels",
                         "compute", "--device=CPU", "--tiny",
                         f"--results={harness.scratch()}/measured")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertRegex(ran.stdout, r"\nSYNC, cifar10_resnet20 +\d")
        self.assertRegex(ran.stdout, r"\ntorch(_memory_test +OK| +SKIPPED: )")
        self.assertRegex(ran.stdout, r"\nbatch_norm 64x64x64 backward +\d")
        self.assertRegex(ran.stdout, r"\ntransformer, 8, AVX2 +\d")

    def test_a_machine_without_a_gpu_is_told_so(self):
        if pathlib.Path("/proc/driver/nvidia").exists():
            self.skipTest("SKIPPED: this machine has an NVIDIA driver")
        ran = run_bundle(self.folder, f"--results={harness.scratch()}/none")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertRegex(ran.stdout,
                         r"\ASKIPPED: no CUDA device: no NVIDIA driver \(.*\)\n\Z")

    def test_a_program_that_fails_is_named(self):
        results = harness.scratch() / "broken"
        ran = run_bundle(self.folder, "--only", "train", "--device=CPU",
                          "--epochs=-1", f"--results={results}")
        self.assertEqual(ran.returncode, 1, ran.stdout)
        self.assertIn("FAILED: ended with 2; see train_CPU_FP32.log", ran.stdout)
        self.assertRegex((results / "train_CPU_FP32.log").read_text(),
                         re.escape("stop.epochs"))

    def test_a_folder_that_is_there_is_left_alone(self):
        ran = subprocess.run([PACK, "--built", self.folder], text=True,
                             capture_output=True, check=False)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("is there already", ran.stderr)


if __name__ == "__main__":
    harness.main()
