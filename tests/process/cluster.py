"""Runs that a test watches and disturbs while they go on."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess

import harness


_KILL = signal.SIGKILL


class Training:
    """A `sluice train` that is under way. Use as a context manager; at its end
    no process of the run is left."""

    def __init__(self, job, *args, preexec_fn=None, env=None, tls=None):
        self.dir = harness.scratch() / "run"
        self.operator = [] if tls is None else [f"--tls={tls / 'operator'}"]
        args = args if tls is None else [f"--tls={tls}", *args]
        self.process = subprocess.Popen(
            [harness.TOOL, "train", job, "--run-dir", self.dir, *args],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True, preexec_fn=preexec_fn, env=env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()  # First: it would start its daemons again.
        self.kill(*self.pids().values())
        self.process.stdout.close()
        self.process.wait()

    def pids(self):
        """Name ("worker-1", "worker-1.2" its member 2) -> process id of the
        running daemons."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = os.fsdecode(
                    (entry / "cmdline").read_bytes()).split("\0")
            except (OSError, NotADirectoryError):
                continue
            if f"--job={self.dir}/job.textproto" not in words:
                continue
            name = pathlib.Path(words[0]).name
            for word in words[1:]:
                if word.startswith(("--shard=", "--worker=")):
                    name += "-" + word.split("=")[1]
                if word.startswith("--member="):
                    name += "." + word.split("=")[1]
            found[name] = int(entry.name)
        return found

    def model_process(self, name, program):
        """The process id of the model process of daemon `name`, which runs
        `program`."""
        for thread in pathlib.Path(f"/proc/{self.pids()[name]}/task").iterdir():
            for child in (thread / "children").read_text().split():
                command = pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
                if str(program).encode() in command:
                    return int(child)
        raise AssertionError(f"{name} has no model process")

    def signal(self, name, number):
        os.kill(self.pids()[name], number)

    @staticmethod
    def kill(*pids, number=_KILL):
        """Sends a signal to processes that have not ended."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def status(self):
        """The run's status; None if no process answers."""
        result = harness.tool("status", self.dir, "--json", *self.operator)
        return json.loads(result.stdout) if result.returncode == 0 else None

    def await_status(self, holds, what):
        """The first status for which `holds` is true."""
        def look():
            status = self.status()
            return status if status is not None and holds(status) else None
        return harness.wait_until(look, what, self.process)

    def await_version(self, version):
        return self.await_status(lambda s: s.get("version", 0) >= version,
                                 f"version {version}")

    def kill_until_it_ends(self, *names):
        """Kills every process with these names, again and again, until the run
        has ended. Returns its output."""
        self.kill_until(names, lambda: self.process.poll() is not None)
        return self.end()

    def kill_until(self, names, over):
        """The same until `over()`."""
        killed = set()
        def struck():
            found = self.pids()
            for name in names:
                if found.get(name, 0) not in killed | {0}:
                    killed.add(found[name])
                    self.kill(found[name])
            return over()
        harness.wait_until(struck, "the end of " + ", ".join(names))

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self, timeout=harness.TIMEOUT_S):
        """The output after the run has ended. No process may be left then."""
        output, _ = self.process.communicate(timeout=timeout)
        left = self.pids()
        if left:
            raise AssertionError(f"still there: {left}\n{output}")
        return output

    @property
    def summary(self):
        return json.loads((self.dir / "summary.json").read_text())

    def log(self, name):
        return (self.dir / f"{name}.log").read_text()
