"""Runs the real tool and the real daemons, for the process tests.

Every test is a unittest module that ends with `harness.main()`, started by
Bazel as an executable; each test case counts as one in the result.
"""

import glob
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ET

# Who starts the tests with & in a script has them ignore it, and what they
# start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = pathlib.Path(os.environ["TEST_SRCDIR"]) / os.environ["TEST_WORKSPACE"]
TOOL = ROOT / "cli/sluice"
PS_SERVER = ROOT / "ps_server/ps_server"
WORKER = ROOT / "worker/worker"
EVALUATOR = ROOT / "worker/evaluator"
REFERENCE_TRAIN = ROOT / "worker/reference/reference_train"
LENET = ROOT / "configs/fashion_mnist_lenet.textproto"

# A run of seconds: 40 mini-batches an epoch, a model of nine floats.
LINEAR_JOB = """
name: "linear"
cluster { workers: 2 shards: 2 }
sync { policy: SYNC }
optimizer { learning_rate: 0.05 sgd { momentum: 0.5 } }
data {
  linear_regression { features: 64 train_samples: 1280 test_samples: 64 }
  batch_size: 32
}
model {
  layer { dense { units: 1 initializer { kind: CONSTANT } } }
  loss: MEAN_SQUARED_ERROR
}
stop { epochs: 2 }
"""

# 40 mini-batches an epoch, the last one short.
BATCH_NORM_JOB = """
name: "batch_norm"
cluster { workers: 2 shards: 2 }
sync { policy: SYNC }
optimizer { learning_rate: 0.003 adam { weight_decay: 0.01 } }
worker { clip_norm: 2 }
data {
  linear_regression { features: 17 train_samples: 1270 test_samples: 64
                      noise: 0.1 }
  batch_size: 32
}
model {
  layer { batch_norm {} }
  layer { dense { units: 37 } }
  layer { batch_norm { momentum: 0.3 } }
  layer { relu {} }
  layer { dropout { rate: 0.3 } }
  layer { residual {
    zero_init_last_gamma: true
    layer { dense { units: 37 bias: false } }
    layer { batch_norm {} }
  } }
  layer { dropout { rate: 0.1 } }
  layer { dense { units: 1 } }
}
stop { epochs: 2 }
"""

# The sanitizer of the daemons ("asan", "tsan"), if any.
SANITIZER = os.environ.get("SLUICE_SANITIZER", "")
# Folder for a sanitizer's reports, one file per process with a report. No test
# ignores them, whatever exit status it expects of a process.
REPORTS = pathlib.Path(os.environ["TEST_TMPDIR"]) / "sanitizer"
for _options in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):
    os.environ[_options] = (
        f"{os.environ.get(_options, '')}:log_path={REPORTS}")

# c-ares, with which gRPC looks up names, never frees a few bytes of each answer.
_LEAKS = pathlib.Path(os.environ["TEST_TMPDIR"]) / "leaks"
_LEAKS.write_text("leak:libcares\n")
os.environ["LSAN_OPTIONS"] = f"suppressions={_LEAKS}:print_suppressions=0"

# The suites that `./sluice test --with=NAME` has asked for.
SUITES = set(filter(None, os.environ.get("SLUICE_WITH", "").split(",")))

# No test waits longer than this. A hang is a failure.
TIMEOUT_S = 120


def suite(name):
    """Skips what needs more than `./sluice test` installs, unless it is asked
    for: also where it is installed, so that a default call runs the same tests
    on every machine."""
    return unittest.skipUnless(
        name in SUITES, f"SKIPPED: suite {name}: ./sluice test --with={name}")


def find_packages_of(name):
    """Makes the Python packages that a suite has from PyPI importable, before
    those of the system, some of which are older."""
    sys.path[:0] = glob.glob(os.path.join(os.environ["SLUICE_PYPI"], name,
                                          "lib/python3*/site-packages"))


def scratch():
    """A new folder for this test."""
    return pathlib.Path(tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"]))


def write_job(text):
    path = scratch() / "job.textproto"
    path.write_text(text)
    return path


def sets(overrides):
    return [a for o in overrides for a in ("--set", o)]


def tool(*args, **kwargs):
    return subprocess.run([str(TOOL), *map(str, args)], capture_output=True,
                          text=True, timeout=TIMEOUT_S, cwd=scratch(),
                          **kwargs)


class Run:
    """A finished `sluice train`."""

    def __init__(self, job, *args):
        self.dir = scratch() / "run"
        self.result = tool("train", job, "--run-dir", self.dir, *args)

    def check(self):
        """Returns this run, which must have succeeded."""
        if self.result.returncode != 0:
            raise AssertionError(
                f"exit status {self.result.returncode}\n{self.result.stdout}\n"
                f"{self.result.stderr}\n{self.logs()}")
        return self

    def logs(self):
        return "\n".join(f"--- {p.name}\n{p.read_text()[-3000:]}"
                         for p in sorted(self.dir.glob("*.log")))

    @property
    def summary(self):
        return json.loads((self.dir / "summary.json").read_text())


def train(job, *args):
    return Run(job, *args).check()


def train_by_hand(job, order, overrides=()):
    """Starts the job's daemons one after another in `order` ("worker-1",
    "ps_server-0", "evaluator"), waits until all have succeeded, and returns
    the run's summary."""
    return run_by_hand(job, order, overrides)[1]


def run_by_hand(job, order, overrides=(), run_dirs={}):
    """The same, but returns the run's folder and its summary. `run_dirs` sets
    the --run-dir of the daemons named in it."""
    folder = scratch()
    lead = f"127.0.0.1:{reserve_port()}"
    commands = {}
    for name in order:
        daemon, _, number = name.partition("-")
        command = [{"ps_server": PS_SERVER, "worker": WORKER,
                    "evaluator": EVALUATOR}[daemon],
                   f"--job={job}", *sets(overrides)]
        if daemon == "worker":
            command += [f"--worker={number}"]
        if daemon == "ps_server":
            listen = lead if number == "0" else "127.0.0.1:0"
            command += [f"--shard={number}", f"--listen={listen}"]
        if name != "ps_server-0":
            command += [f"--coordinator={lead}"]
        if name in ("ps_server-0", "evaluator"):
            command += [f"--run-dir={folder}"]
        if name in run_dirs:
            command += [f"--run-dir={run_dirs[name]}"]
        commands[name] = command
    run_together(commands, folder)
    return folder, json.loads((folder / "summary.json").read_text())


def run_together(commands, folder, environments={}):
    """Starts a process for each name, in order, and waits until all have
    succeeded. NAME.log in `folder` has what it prints. `environments` has the
    environment of those that do not share this process's."""
    processes = {}
    try:
        for name, command in commands.items():
            with open(folder / f"{name}.log", "w") as log:
                processes[name] = subprocess.Popen(
                    [*map(str, command)], stderr=log, stdout=log,
                    env=environments.get(name))

        def have_succeeded():
            for name, process in processes.items():
                if process.poll():  # The others may wait for it.
                    raise AssertionError(
                        f"{name}: {(folder / f'{name}.log').read_text()}")
            return all(p.poll() == 0 for p in processes.values())

        wait_until(have_succeeded, f"{', '.join(processes)} to end")
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


_RESERVED = []  # Sockets, each of which holds a port until this test ends.


def reserve_port(host="127.0.0.1"):
    """A port that no other process is given while this test runs, at this
    address ("::": at all). Only for a daemon whose address others must know
    before it listens; other daemons choose one themselves (port 0). Connections
    to it are refused until a daemon listens there."""
    holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    holder.bind((host, 0))
    # A process that sets this option too, as the daemons do, may listen there.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _RESERVED.append(holder)
    return holder.getsockname()[1]


def wait_until(condition, what, process=None):
    """Waits for a condition, with a deadline and a name for messages."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        if process is not None and process.poll() is not None:
            raise AssertionError(
                f"exited with {process.returncode} while waiting for {what}")
        time.sleep(0.02)  # Polling interval for another process's files.
    raise AssertionError(f"waited {TIMEOUT_S} s for {what}")


def take_reports():
    """The sanitizers' reports since the last call."""
    texts = []
    for path in sorted(REPORTS.parent.glob(f"{REPORTS.name}.*")):
        texts.append(f"{path.name}:\n{path.read_text(errors='replace')}")
        path.unlink()
    return texts


class Result(unittest.TextTestResult):
    """Fails a test if a sanitizer reports one of its processes."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seconds = {}  # By name, in order.
        self._begun = None

    def startTest(self, test):
        super().startTest(test)
        self._begun = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        self.seconds[test.id()] = time.monotonic() - self._begun
        self.failures += [(test, text) for text in take_reports()]


def report_of(result):
    """The result in the form that Bazel expects, JUnit's. A case whose subtests
    fail has failed, with what each of them says."""
    bad = {}
    for test, why in result.failures + result.errors:
        name = getattr(test, "test_case", test).id()  # Of a subtest, its case.
        bad[name] = bad.get(name, "") + why
    skipped = {t.id(): why for t, why in result.skipped}
    suite = ET.Element("testsuite", name=pathlib.Path(__file__).stem,
                       tests=str(len(result.seconds)), failures=str(len(bad)),
                       skipped=str(len(skipped)))
    for name, seconds in result.seconds.items():
        case = ET.SubElement(suite, "testcase", name=name,
                             time=f"{seconds:.3f}")
        if name in bad:
            ET.SubElement(case, "failure", message="failed").text = bad[name]
        elif name in skipped:
            ET.SubElement(case, "skipped", message=skipped[name])
    suites = ET.Element("testsuites", dict(suite.attrib))
    suites.append(suite)
    return ET.ElementTree(suites)


def main():
    """Runs the module's tests and writes the result where Bazel reads it."""
    program = unittest.main(
        module="__main__", exit=False, verbosity=2,
        testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Result))
    result = program.result
    # Reports of processes that ended after their test.
    result.failures += [(unittest.FunctionTestCase(lambda: None), text)
                        for text in take_reports()]
    for _, why in result.failures:
        if "Sanitizer" in why or "runtime error" in why:
            print(why, flush=True)
    if "XML_OUTPUT_FILE" in os.environ:
        report_of(result).write(os.environ["XML_OUTPUT_FILE"])
    raise SystemExit(0 if result.wasSuccessful() and result.seconds else 1)
