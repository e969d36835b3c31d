"""A run whose daemons are started by hand, without `sluice train`."""

import json
import subprocess

import harness


class ByHand:
    """Two shards, two workers and an evaluator, without `sluice train`. Those
    in `start` are started at once, by default all. `job` is appended to the
    job's text, and flags(name) to each command. Both shards use the run
    folder. With `any_number` the workers have no numbers of their own."""

    operator = ()  # Flags of who asks for the status.

    def __init__(self, run_dir=False, sets=(), start=None, job="", env=None,
                 flags=lambda name: [], workers=2, any_number=False):
        self.dir = harness.scratch()
        self.env = env
        self.job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "seconds: 600") + job)
        self.lead = f"127.0.0.1:{harness.reserve_port()}"
        sets = harness.sets(sets)
        at = [f"--job={self.job}", f"--coordinator={self.lead}", *sets]
        self.folder = [f"--run-dir={self.dir / 'run'}"] if run_dir else []
        self.commands = {
            "shard 0": [harness.PS_SERVER, "--shard=0",
                        f"--listen={self.lead}", f"--job={self.job}",
                        *sets, *self.folder],
            "shard 1": [harness.PS_SERVER, "--shard=1",
                        "--listen=127.0.0.1:0", *at, *self.folder],
            "evaluator": [harness.EVALUATOR, f"--run-dir={self.dir}", *at],
        }
        for number in range(workers):
            self.commands[f"worker {number}"] = [
                harness.WORKER, *at,
                f"--worker={'any' if any_number else number}"]
        for name, command in self.commands.items():
            command += flags(name)
        self.processes = {}
        for name in start or self.commands:
            self.start(name)

    def start(self, name, *flags):
        with open(self.dir / name, "a") as log:
            self.processes[name] = subprocess.Popen(
                [*self.commands[name], *flags], stderr=log, env=self.env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def log(self, name):
        return (self.dir / name).read_text()

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def status(self, *flags):
        return harness.tool("status", self.lead, "--json", *flags)

    def await_status(self, holds, what):
        def look():
            result = self.status(*self.operator)
            status = json.loads(result.stdout) if not result.returncode else {}
            return status if status and holds(status) else None
        try:
            return harness.wait_until(look, what, self.processes["shard 0"])
        except AssertionError as failure:
            said = self.log("shard 0")[-8000:]
            raise AssertionError(f"{failure}; shard 0:\n{said}") from None

    def await_training(self, generation=1):
        """Waits until updates are made in a generation. Returns the status."""
        begun = self.await_status(
            lambda s: s["generation"] == generation and s["phase"] == "running",
            f"generation {generation} to run")
        return self.await_status(
            lambda s: s["version"] > begun["version"], "a further version")
