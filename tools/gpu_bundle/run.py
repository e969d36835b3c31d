#!/usr/bin/env python3
"""Tests and measures Sluice on this machine's GPU; prints a table.

    ./run.py                  the tests, a training job, the benchmarks
    ./run.py --quick          of the tests what runs on the GPU, without the
                              sanitizer, and PyTorch eager only, with
                              mini-batches of 64
    ./run.py --only tests     one part, or several
    ./run.py --only train overlap torch kernels compute --device CPU
                            what needs no GPU

What each part printed stays in --results. Where the machine lacks a GPU or one
of CUDA's libraries it says SKIPPED and what is missing, and ends with 0; with 1
where a part fails.
"""

import argparse
import concurrent.futures
import ctypes
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

BUNDLE = pathlib.Path(__file__).absolute().parent
PARTS = ["tests", "sanitizer", "train", "overlap", "torch", "kernels", "compute"]
# The cases that do not run in emulation.
ON_THE_GPU = "--gtest_filter=*Gpu*"
TIMEOUT_S = 600  # For one program.
SANITIZER_TIMEOUT_S = 3600  # For one under compute-sanitizer.
# The benchmark in which PyTorch compiles every model three times.
COMPUTE_TIMEOUT_S = 5400
# Gradients of one mini-batch agree between devices and precisions up to
# rounding. After two epochs of LeNet the accuracies may differ by this.
ACCURACY_APART = 0.01


class Missing(Exception):
    """Something that the machine lacks."""


def gpus():
    """The GPUs' names, and the CUDA version of the driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Missing(f"no NVIDIA driver ({error})") from error
    code = driver.cuInit(0)
    if code != 0:
        raise Missing(f"the NVIDIA driver finds no GPU (cuInit: {code})")
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    names = []
    for i in range(count.value):
        name = ctypes.create_string_buffer(256)
        driver.cuDeviceGetName(name, 256, i)
        names.append(name.value.decode())
    return names, f"{version.value // 1000}.{version.value % 1000 // 10}"


def library_folders():
    """Folders in which a toolkit, or NVIDIA's Python packages, may have CUDA's
    libraries."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders += [f"{os.environ.get('CUDA_PATH', '/usr/local/cuda')}/lib64"]
    folders += sorted(glob.glob("/usr/local/cuda*/lib64"))
    paths = subprocess.run(
        [shutil.which("python3") or sys.executable, "-c",
         "import sys; print('\\n'.join(sys.path))"],
        capture_output=True, text=True, check=True).stdout.split("\n")
    for path in filter(None, [*sys.path, *paths]):
        folders += sorted(glob.glob(f"{path}/nvidia/*/lib"))
    return list(dict.fromkeys(filter(os.path.isdir, folders)))


def find_cuda_libraries(names):
    """The folders that have `names`, and a line about each."""
    folders = library_folders()
    found, lines = [], []
    for name in names:
        folder = next((f for f in folders if os.path.exists(f"{f}/{name}")), None)
        if folder is None:
            raise Missing(f"{name} is in none of {', '.join(folders) or 'the'} "
                          "folders of CUDA's libraries")
        found.append(folder)
        lines.append(f"{os.path.realpath(f'{folder}/{name}')}")
    # Libraries load others by name, which may lie in their packages' folders.
    return list(dict.fromkeys(found + folders)), lines


class Runner:
    def __init__(self, args, contents, library_folders):
        self.args, self.contents = args, contents
        self.tree = args.results / "programs"
        self.failed = False
        args.results.mkdir(parents=True, exist_ok=True)
        self.unpack(BUNDLE / "programs.tar.xz")
        known = os.environ.get("LD_LIBRARY_PATH", "")
        # For Sluice's programs alone: Python and PyTorch have libraries of
        # their own.
        self.libraries = ":".join(
            [str(self.tree / "lib"), *library_folders, *filter(None, [known])])

    def unpack(self, packed):
        """Unless the tree is of this very bundle."""
        about = packed.stat()
        packed_is = f"{packed} {about.st_size} {about.st_mtime_ns}"
        unpacked_from = self.tree / "unpacked_from"
        if (unpacked_from.exists() and
                unpacked_from.read_text() == packed_is):
            return
        shutil.rmtree(self.tree, ignore_errors=True)
        with tarfile.open(packed) as tar:
            tar.extractall(self.tree)
        unpacked_from.write_text(packed_is)  # Last: all of it is there.

    def say(self, part, result):
        print(f"{part:44} {result}", flush=True)

    def fail(self, part, why):
        self.failed = True
        self.say(part, f"FAILED: {why}")

    def run(self, name, command, timeout_s=TIMEOUT_S,
            libraries="LD_LIBRARY_PATH"):
        """Returns the exit status. The output goes to NAME.log. `libraries` is
        the variable in which the command finds Sluice's libraries."""
        with open(self.args.results / f"{name}.log", "w") as log:
            try:
                return subprocess.run(
                    list(map(str, command)), stdout=log, cwd=self.tree,
                    stderr=subprocess.STDOUT, timeout=timeout_s,
                    env={**os.environ, libraries: self.libraries}).returncode
            except subprocess.TimeoutExpired:
                return f"no end within {timeout_s} s"

    def log_of(self, name):
        return (self.args.results / f"{name}.log").read_text(errors="replace")

    def tests(self, prefix=(), name="", timeout_s=TIMEOUT_S):
        """Runs the tests, as many at once as there are pairs of processors.
        Returns the number of cases."""
        more = [ON_THE_GPU] * bool(prefix or self.args.quick)

        def start(test):
            short = test.rsplit("/", 1)[1] + name
            report = self.args.results / f"{short}.json"
            report.unlink(missing_ok=True)  # Of an earlier run.
            code = self.run(short, [*prefix, self.tree / test, *more,
                                    f"--gtest_output=json:{report}"],
                            timeout_s)
            return short, report, code

        at_once = max(1, len(os.sched_getaffinity(0)) // 2)
        with concurrent.futures.ThreadPoolExecutor(at_once) as several:
            return sum(self.judge(*ended)
                       for ended in several.map(start, self.contents["tests"]))

    def judge(self, short, report, code):
        """Says how a test ended. Returns the number of its cases."""
        if not report.exists():
            self.fail(short, f"ended with {code}; see {short}.log")
            return 0
        cases = [case for suite in json.loads(report.read_text())["testsuites"]
                 for case in suite["testsuite"]]
        bad = [case for case in cases if "failures" in case]
        skipped = sum(case["result"] == "SKIPPED" for case in cases)
        counts = (f"{len(cases) - len(bad) - skipped} passed, {len(bad)} "
                  f"failed, {skipped} skipped")
        # On a machine with a GPU there is nothing that a test may lack.
        lacks = skipped > 0 and self.args.device == "CUDA"
        if code != 0 or bad or lacks:
            self.fail(short, f"{counts}, ended with {code}; see {short}.log")
        else:
            self.say(short, counts)
        return len(cases)

    def sanitizer(self):
        tool = shutil.which("compute-sanitizer") or (
            f"{os.environ.get('CUDA_PATH', '/usr/local/cuda')}/bin/compute-sanitizer")
        if not os.path.exists(tool):
            self.say("sanitizer", f"SKIPPED: there is no {tool}")
            return
        for check in ("memcheck", "racecheck"):
            # Errors that CUDA returns and the code expects (a shape that a
            # library refuses) are no findings.
            if self.tests([tool, f"--tool={check}", "--error-exitcode=99",
                           *["--report-api-errors=no"] * (check == "memcheck")],
                          f"_{check}", SANITIZER_TIMEOUT_S) == 0:
                self.fail(check, "no test's name has Gpu in it")

    def train(self):
        """Trains with two workers and two shards, on the GPU in two precisions
        and on the CPU."""
        job = self.tree / "configs/fashion_mnist_lenet.textproto"
        images = self.contents["images"]
        job.write_text(job.read_text().replace(
            images, str(BUNDLE / pathlib.Path(images).name)))
        accuracy = {}
        runs = [("CPU", "FP32")]
        if self.args.device == "CUDA":
            runs = [("CUDA", "FP32"), ("CUDA", "BF16"), *runs]
        for device, precision in runs:
            name = f"train_{device}_{precision}"
            run = self.args.results / name
            shutil.rmtree(run, ignore_errors=True)
            code = self.run(name, [
                self.tree / "cli/sluice", "train", job, f"--run-dir={run}",
                "--workers=2", "--set=sync.k=2", f"--set=worker.device={device}",
                f"--set=worker.precision={precision}",
                f"--set=stop={{epochs: {self.args.epochs}}}"])
            if code != 0:
                self.fail(name, f"ended with {code}; see {name}.log")
                return
            summary = json.loads((run / "summary.json").read_text())
            accuracy[name] = summary["test_accuracy"]
            self.say(name, f"accuracy {accuracy[name]:.4f}, "
                           f"{summary['samples_per_second']:.0f} samples/s")
        if max(accuracy.values()) - min(accuracy.values()) > ACCURACY_APART:
            self.fail("train", f"expected accuracies within {ACCURACY_APART}")

    def measure(self, name, command, timeout_s=TIMEOUT_S, **libraries):
        """Runs a benchmark and prints its table."""
        code = self.run(name, [*command, f"--device={self.args.device.lower()}",
                               *["--tiny"] * self.args.tiny], timeout_s,
                        **libraries)
        print(self.log_of(name))
        if code != 0:
            self.fail(name, f"ended with {code}")

    def kernels(self):
        # The same operations on a CPU, smaller.
        size = ["--mib=1"] if self.args.device == "CPU" else []
        self.measure("kernels", [self.tree / "bench/kernels", *size])

    def overlap(self):
        # Mini-batches of the size that is usual for a GPU.
        size = ["--batch=64", "--updates=40"] if self.args.device == "CUDA" else []
        self.script("overlap", size)

    def torch(self):
        """PyTorch models as model processes."""
        python = shutil.which("python3") or sys.executable
        name = "torch_memory_test"
        if self.run("torch", [python, "-c", "import torch"]) != 0:
            self.say("torch", f"SKIPPED: {self.log_of('torch').splitlines()[-1]}")
            return
        scratch = self.args.results / "scratch"
        scratch.mkdir(exist_ok=True)
        os.environ.update(TEST_SRCDIR=str(self.tree.parent),
                          TEST_WORKSPACE=self.tree.name, SLUICE_WITH="torch",
                          TEST_TMPDIR=str(scratch))
        code = self.run(name, [python, "-B", self.tree / f"tests/process/{name}.py"],
                        libraries="SLUICE_LIBRARY_PATH")
        summary = self.log_of(name).splitlines()[-1:]
        if code == 0:
            self.say(name, *summary)
        else:
            self.fail(name, f"{summary}, ended with {code}; see {name}.log")
        size = ["--batch-size=64", "--shards=8", "--overlap", "--precision=BF16",
                "--instruction-set=AVX512"]
        self.script("torch_loop", size * (self.args.device == "CUDA"))

    def compute(self):
        quick = ["--eager", "--rounds=3", "--batches", "64"]
        self.script("compute", quick * self.args.quick, COMPUTE_TIMEOUT_S)

    def script(self, name, options=(), timeout_s=TIMEOUT_S):
        python = shutil.which("python3") or sys.executable
        # bench/peers/programs.py hands them on.
        self.measure(name, [python, "-B", self.tree / f"bench/{name}.py", *options],
                     timeout_s, libraries="SLUICE_LIBRARY_PATH")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS,
                        metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--device", choices=["CUDA", "CPU"], default="CUDA")
    parser.add_argument("--epochs", type=float, default=2, help="of the job")
    parser.add_argument("--quick", action="store_true",
                        help="what a short loan of a GPU has time for")
    parser.add_argument("--tiny", action="store_true",
                        help="the benchmarks in a few seconds")
    parser.add_argument("--results", type=pathlib.Path, default=BUNDLE / "results",
                        help="folder for what is unpacked and printed")
    args = parser.parse_args()
    args.results = args.results.absolute()
    contents = json.loads((BUNDLE / "contents.json").read_text())
    folders = []
    if args.device == "CUDA":
        try:
            names, version = gpus()
            folders, lines = find_cuda_libraries(contents["cuda_libraries"])
        except Missing as missing:
            print(f"SKIPPED: no CUDA device: {missing}")
            return
        print(f"{', '.join(names)}; driver for CUDA {version}", *lines, sep="\n")
    runner = Runner(args, contents, folders)
    if args.quick:
        args.only = [part for part in args.only if part != "sanitizer"]
        if not args.only:
            parser.error("--quick leaves out the sanitizer, and nothing else is asked for")
    for part in args.only:
        getattr(runner, part)()
    sys.exit(1 if runner.failed else 0)


if __name__ == "__main__":
    main()
