#!/usr/bin/python3 -B
"""deploy/slurm/sluice.sbatch without Slurm: real daemons, and stand-ins for srun,
squeue, scancel and scontrol. The suite `slurm` runs it under a real one."""

import json
import os
import shutil
import signal
import subprocess
import unittest

import harness
import pipeline_jobs

SCRIPT = harness.ROOT / "deploy/slurm/sluice.sbatch"
# What of Slurm the script calls; `scancel` reaches the lead's step. And sed, which
# has the script get SIGTERM before it waits for daemons, once all have joined: who
# comes when the lead has ended looks for it until the script ends it.
COMMANDS = {
    "sed": '''if [[ -n ${STOP_AT:-} && $* == *"$STOP_AT"* ]]; then
  until [[ -s $RUN_DIR/metrics.jsonl ]]; do sleep 0.05; done
  kill -TERM "$(ps -o sid= -p $$)"
fi 2>/dev/null
PATH=${PATH#*:} exec sed "$@"''',
    "srun": 'while [[ $1 == --* ]]; do shift; done; exec "$@"',
    "scontrol": '[[ $1 == show ]] && echo localhost || echo "$@" >>"$CALLED"',
    "squeue": '[[ $* == *%T ]] && echo RUNNING || echo "7.0 ps_server-0"',
    "scancel": 'pkill -TERM -f -- "--shard=0 .*--run-dir=$RUN_DIR"',
}


class Allocation:
    """The script in an allocation of this host, with a run folder of its own."""

    def __init__(self, *overrides, **variables):
        folder = harness.scratch()
        self.dir = folder / "run"
        self.dir.mkdir()
        self.called = folder / "called"
        commands = folder / "commands"
        commands.mkdir()
        for name, text in COMMANDS.items():
            (commands / name).write_text(f"#!/bin/bash\n{text}\n")
            (commands / name).chmod(0o755)
        port = harness.reserve_port()
        self.lead = f"127.0.0.1:{port}"
        environment = {
            **os.environ, "PATH": f"{commands}:{os.environ['PATH']}",
            "JOB": str(harness.write_job(harness.LINEAR_JOB)),
            "RUN_DIR": str(self.dir), "BIN": str(harness.TOOL.parent.parent),
            "SET": " ".join(overrides), "CALLED": str(self.called),
            "PORT": str(port), "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": "localhost", **variables}
        self.process = subprocess.Popen(
            ["bash", SCRIPT], env=environment, start_new_session=True,
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()

    def pid(self, flag):
        """Of the daemon with this flag."""
        found = subprocess.run(
            ["pgrep", "-f", "--", f"--{flag} .*--log={self.dir}/"],
            capture_output=True, text=True).stdout.split()
        return int(found[0]) if found else None

    def await_version(self, least):
        def look():
            path = self.dir / "metrics.jsonl"
            lines = path.read_text().splitlines() if path.exists() else []
            return lines and json.loads(lines[-1])["version"] >= least
        harness.wait_until(look, f"version {least}", self.process)

    def end(self):
        """Its status and what it has said."""
        said = self.process.communicate(timeout=harness.TIMEOUT_S)[1]
        return self.process.returncode, said

    def summary(self):
        return json.loads((self.dir / "summary.json").read_text())


@unittest.skipUnless(shutil.which("pkill"), "procps is not installed")
class SlurmTest(unittest.TestCase):

    def test_a_worker_that_is_killed_is_started_again_and_the_run_ends_well(self):
        with Allocation("delays.compute.constant.ms=20",
                        "stop={updates:300}") as job:
            job.await_version(20)
            os.kill(job.pid("worker=1"), signal.SIGKILL)
            status, said = job.end()
            self.assertEqual(status, 0, said)
            self.assertIn("worker-1: ended with 137; starting it again", said)
            self.assertEqual(job.summary()["version"], 300)
            ledger = harness.tool("ledger", job.dir)
            self.assertEqual(ledger.returncode, 0, ledger.stdout)

    def test_without_certificates_daemons_are_on_the_loopback_alone(self):
        with Allocation("delays.compute.constant.ms=20",
                        "stop.epochs=100000") as job:
            job.await_version(1)
            status = harness.tool("status", job.lead)
            self.assertEqual(status.returncode, 0, status.stderr)
            self.assertNotIn("insecure", status.stdout)
            hosts = {line.split()[-1].rpartition(":")[0] for line in
                     (job.dir / "addresses").read_text().splitlines()
                     if not line.startswith("run ")}
            self.assertEqual(hosts, {"127.0.0.1"})

    def test_the_processes_of_a_group_are_steps(self):
        with Allocation(
                "delays.compute.constant.ms=20", "stop={updates:400}",
                "cluster.workers=4", "optimizer.learning_rate=0.001",
                "worker.group={pipeline_stages:2,slots:2,replicas:[2,1]}",
                "worker.micro_batch=8", "sync.policy=ASYNC",
                JOB=str(harness.write_job(pipeline_jobs.MLP))) as job:
            job.await_version(20)
            os.kill(job.pid("worker=1 --member=2"), signal.SIGKILL)
            status, said = job.end()
            self.assertEqual(status, 0, said)
            self.assertIn("worker-1.2: ended with 137; starting it again", said)
            self.assertEqual(job.summary()["version"], 400)
            ledger = harness.tool("ledger", job.dir)
            self.assertEqual(ledger.returncode, 0, ledger.stdout)

    def test_a_daemon_that_dies_too_often_ends_the_run(self):
        with Allocation("delays.compute.constant.ms=20",
                        "stop.epochs=100000", RESTARTS="1") as job:
            job.await_version(20)
            first = job.pid("worker=1")
            os.kill(first, signal.SIGKILL)
            second = harness.wait_until(
                lambda: job.pid("worker=1") not in (None, first) and
                job.pid("worker=1"), "worker 1 to come back", job.process)
            os.kill(second, signal.SIGKILL)
            status, said = job.end()
            self.assertEqual(status, 137, said)
            self.assertIn("worker-1: ended with 137, 2 times in a row",
                          said)
            self.assertIsNone(job.pid("shard=0"))

    def test_sigterm_ends_the_run_well_and_asks_for_another_time(self):
        with Allocation("delays.compute.constant.ms=20", "stop.epochs=100000",
                        AGAIN="yes") as job:
            job.await_version(20)
            job.process.terminate()
            status, said = job.end()
            self.assertEqual(status, 0, said)
            self.assertEqual(job.summary()["reason"], "stopped by SIGTERM")
            self.assertEqual(job.called.read_text(), "requeue 7\n")

    def test_sigterm_before_it_waits_for_the_daemons_ends_the_run_well(self):
        with Allocation("stop.epochs=100000", "evaluation.enabled=false",
                        STOP_AT='"evaluation"', AGAIN="yes") as job:
            status, said = job.end()
            self.assertEqual(status, 0, said)
            self.assertNotIn("have not within", said)
            self.assertEqual(job.called.read_text(), "requeue 7\n")

    def test_what_is_wrong_is_named(self):
        for variables, named in (
                ({"RUN_DIR": "no/such"}, "RUN_DIR: there is no folder no/such"),
                ({"SET": "sync.kk=3"}, "cannot be trained"),
                ({"PORT": "", "JOB": str(harness.write_job(pipeline_jobs.MLP)),
                  "SET": "cluster.workers=40 worker.group={pipeline_stages:2} "
                         "worker.micro_batch=8 sync.policy=ASYNC"},
                 "listen at up to 81 ports above it, and without it a job has "
                 "64")):
            with self.subTest(**variables), Allocation(**variables) as job:
                status, said = job.end()
                self.assertEqual(status, 2, said)
                self.assertIn(named, said)


if __name__ == "__main__":
    harness.main()
