"""Starts the programs that are compared. Sluice's come from Bazel's outputs
or, in a test, from the files beside this tree; PyTorch's run with the Python
that has it."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading

import report

ROOT = pathlib.Path(__file__).absolute().parent.parent.parent
PEERS = ROOT / "bench/peers"
# This Python: /usr/bin/python3, for which Debian installs PyTorch, or another
# one with PyTorch that was used to run the benchmark.
PYTHON = [sys.executable, "-B"]
ENVIRONMENT = {
    **os.environ,
    # One thread each, for any BLAS that PyTorch may use.
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
    # glibc returns large blocks to the system and allocates them again for each
    # activation. Without that, PyTorch computes the ResNet up to 1.4 times
    # faster.
    "MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**32),
}
HAS_AVX512 = "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text()
# Restricts PyTorch's own kernels, oneDNN and OpenBLAS to AVX2, where that is a
# restriction. What torch.compile makes does not heed it: PyTorch 2.15's max
# pooling then fails.
AVX2_ONLY = ["ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2",
             "OPENBLAS_CORETYPE=Haswell"] if HAS_AVX512 else []


def built(path):
    """Path of a program that Bazel builds, for example "cli/sluice"."""
    beside = ROOT / path
    return beside if beside.is_file() else ROOT / "bazel-bin" / path


def environment_of(command):
    """What a program runs with. A bundle brings libraries for Sluice's own, which
    Python and PyTorch must not load in place of theirs."""
    libraries = os.environ.get("SLUICE_LIBRARY_PATH")
    if libraries is None or ROOT not in pathlib.Path(command[0]).parents:
        return ENVIRONMENT
    return {**ENVIRONMENT, "LD_LIBRARY_PATH": libraries}


def has_torch():
    return subprocess.run([*PYTHON, "-c", "import numpy, torch"],
                          stderr=subprocess.DEVNULL,
                          timeout=report.DEADLINE_S).returncode == 0


def why_torch_cannot(step):
    """PyTorch's error message if `step` fails, otherwise None."""
    tried = subprocess.run([*PYTHON, "-c", f"import torch; {step}"],
                           capture_output=True, text=True, timeout=PROGRAM_S)
    return tried.stderr.strip().split("\n")[-1] if tried.returncode else None


def torch(name, instruction_set):
    """The command of a PyTorch program that uses these vector instructions:
    AVX2, or AVX512 for the widest that PyTorch finds. A bundle's daemons, too,
    may start it."""
    own = os.environ.get("LD_LIBRARY_PATH")
    libraries = (["-u", "LD_LIBRARY_PATH"] if own is None else
                 [f"LD_LIBRARY_PATH={own}"])
    return ["env", *libraries, *(AVX2_ONLY if instruction_set == "AVX2" else []),
            *PYTHON, PEERS / f"{name}.py"]


# Longer than any program here runs.
PROGRAM_S = 3600


def output_of(command, **variables):
    """The output of a program, which must succeed within PROGRAM_S. It ends where
    this process is killed. `variables` are set in its environment."""
    try:
        result = subprocess.run(
            [str(word) for word in command], text=True, capture_output=True,
            env={**environment_of(command), **variables}, timeout=PROGRAM_S,
            preexec_fn=report.ends_with_this)
    except subprocess.TimeoutExpired:
        sys.exit(f"{command}: has not ended after {PROGRAM_S} s")
    if result.returncode != 0:
        sys.exit(f"{command}: {result.stdout}\n{result.stderr}")
    return result.stdout


class Contestant:
    """A program with the protocol of one_worker.cc."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=environment_of(command))
        self.about = json.loads(self._line())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        with self._killed_after(PROGRAM_S):
            self.process.wait()
        self.process.stdout.close()

    @contextlib.contextmanager
    def _killed_after(self, seconds):
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _line(self):
        with self._killed_after(PROGRAM_S):
            line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args[:3]} ended early, or said nothing "
                     f"for {PROGRAM_S} s")
        return line

    def rates(self, work, seconds):
        """Samples per second of CPU time and of wall time."""
        self.process.stdin.write(f"{work} {seconds}\n")
        self.process.stdin.flush()
        return tuple(map(float, self._line().split()))
