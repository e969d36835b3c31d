#!/usr/bin/python3 -B
"""A link is cut between some processes and not between others. To cut it for
longer than continuous integration waits, run partition_test.py SECONDS"""

import json
import subprocess
import sys
import time
import unittest

import harness
import networks
import pipeline_jobs

# The keepalive of a connection takes 20 s to notice.
PARTITION_S = float(sys.argv.pop(1)) if sys.argv[1:2] else 25.0
OUTAGE_S = 15.0  # Outage of a host's whole network.
PORT = 7000


class Hosts:
    """Two shards and two workers, or the two members of one, each on its own
    host."""

    NAMES = {"lead": "shard 0", "other": "shard 1", "w0": "worker 0",
             "w1": "worker 1"}

    def __init__(self, network, *sets, group=False):
        self.network = network
        self.dir = harness.scratch()
        job = pipeline_jobs.MLP if group else harness.LINEAR_JOB
        self.job = harness.write_job(job.replace("epochs: 2", "seconds: 3600"))
        self.lead = f"{network.address('lead')}:{PORT}"
        self.processes = {}
        at = [f"--job={self.job}", *harness.sets(
            ["evaluation.enabled=false", *sets])]
        at.append("--insecure")  # The hosts' networks are these processes' own.
        to = [*at, f"--coordinator={self.lead}"]
        self.start("lead", harness.PS_SERVER, "--shard=0", *at,
                   f"--listen={self.lead}")
        self.start("other", harness.PS_SERVER, "--shard=1", *to,
                   f"--listen={network.address('other')}:{PORT}")
        if not group:
            for number in range(2):
                self.start(f"w{number}", harness.WORKER, f"--worker={number}",
                           *to)
            return
        link = f"{network.address('w0')}:{PORT}"
        self.start("w0", harness.WORKER, "--worker=0", f"--listen={link}", *to)
        self.start("w1", harness.WORKER, "--worker=0", "--member=1",
                   f"--upstream={link}", *to)

    def start(self, host, *command):
        with self.network.within(host), open(self.dir / host, "a") as log:
            self.processes[host] = subprocess.Popen(command, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def log(self, host):
        return (self.dir / host).read_text()

    def status(self):
        result = harness.tool("status", self.lead, "--json", "--insecure")
        return json.loads(result.stdout) if result.returncode == 0 else {}

    def await_status(self, holds, what):
        def look():
            for host, process in self.processes.items():
                if process.poll() is not None:
                    raise AssertionError(
                        f"{host} ended with {process.returncode}: "
                        f"{self.log(host)[-2000:]}")
            status = self.status()
            return status if status and holds(status) else None
        return harness.wait_until(look, what)

    def await_training(self):
        begun = self.await_status(lambda s: s["phase"] == "running", "a start")
        return self.await_status(
            lambda s: s["version"] > begun["version"], "a further version")


class PartitionTest(unittest.TestCase):

    def test_workers_that_are_cut_off_from_one_shard_wait_and_go_on(self):
        with networks.Networks(Hosts.NAMES) as network, Hosts(network) as run:
            run.await_training()
            for host in ("w0", "w1"):  # Each a network of its own.
                self.assertIn('event=shares_no_memory with="shard 0',
                              run.log(host))
                self.assertIn('reason="the shard is on another host"',
                              run.log(host))
                self.assertNotIn("event=shares_memory", run.log(host))
            cut = time.monotonic()
            network.cut(["w0", "w1"], ["other"])
            status = run.await_status(
                lambda s: all(f"{name}, which cannot reach shard 1 at "
                              f"{network.address('other')}:{PORT}"
                              in s["waiting_for"]
                              for name in ("worker 0", "worker 1")),
                "both workers and the shard in the status")
            print(f"\n{time.monotonic() - cut:.1f} s after the cut: waiting "
                  f"for {status['waiting_for']} ({status['waiting_s']:.1f} s)")
            stands = run.await_status(
                lambda s: time.monotonic() - cut >= PARTITION_S,
                "the end of the partition") if PARTITION_S < 100 else (
                    self.outwait(run, cut))
            network.heal(["w0", "w1"], ["other"])
            healed = time.monotonic()
            after = run.await_status(
                lambda s: s["version"] > stands["version"] + 1
                and not s["waiting_for"], "training to go on")
            print(f"{healed - cut:.1f} s of partition; "
                  f"{time.monotonic() - healed:.1f} s after its end version "
                  f"{after['version']}, at its end {stands['version']}")
            self.assertEqual(after["generation"], 1)
            for worker in after["worker"]:
                self.assertEqual(worker["incarnation"], 1, worker)
            for host in Hosts.NAMES:
                self.assertIsNone(run.processes[host].poll(), run.log(host))
                self.assertNotIn("event=life_over", run.log(host))

    def outwait(self, run, cut):
        """Like await_status, but for longer than other tests may take."""
        status = {}
        while time.monotonic() - cut < PARTITION_S:
            deadline = time.monotonic() + 10
            status = run.await_status(
                lambda s: time.monotonic() >= deadline, "ten seconds more")
        return status

    # Earlier versions exited with 75 after 5 s and stayed away.
    def test_a_worker_without_network_for_long_comes_back_by_itself(self):
        with networks.Networks(Hosts.NAMES) as network, Hosts(
                network, "limits.lease_s=2", "sync={ policy: K_ASYNC k: 2 }",
                "optimizer.learning_rate=0.005") as run:
            run.await_training()
            network.cut(["w1"], ["lead", "other"])
            run.await_status(
                lambda s: s["worker"][1]["state"] == "cut off"
                and s["worker"][1]["last_heard_s"] > OUTAGE_S,
                "worker 1 to be silent for long")
            network.heal(["w1"], ["lead", "other"])
            back = run.await_status(
                lambda s: s["worker"][1]["incarnation"] == 2
                and s["worker"][1]["state"] != "cut off",
                "worker 1 to join again")
            applied = back["worker"][1]["gradients"]["applied"]
            after = run.await_status(
                lambda s: s["worker"][1]["gradients"]["applied"] > applied,
                "a further gradient of worker 1")
            self.assertEqual(after["generation"], 1)

    def test_who_cannot_reach_a_shard_says_so_before_the_run_begins(self):
        with networks.Networks(Hosts.NAMES) as network:
            network.cut(["w1"], ["other"])
            with Hosts(network, "limits.start_timeout_s=8") as run:
                shard = f"shard 1 at {network.address('other')}:{PORT}"
                run.await_status(
                    lambda s: f"worker 1, which cannot reach {shard}"
                    in s.get("waiting_for", ""), "the status to name both")
                self.assertEqual(
                    run.processes["w1"].wait(timeout=harness.TIMEOUT_S), 75)
                self.assertIn(f'event=waiting for="a connection to {shard}"',
                              run.log("w1"))
                self.assertIn(f"{shard}: no connection for 8s "
                              "(limits.start_timeout_s)", run.log("w1"))

    def test_a_member_behind_the_first_that_cannot_reach_a_shard_ends(self):
        with networks.Networks(Hosts.NAMES) as network:
            network.cut(["w1"], ["other"])
            with Hosts(network, "limits.start_timeout_s=8",
                       "limits.partition_timeout_s=3", "cluster.workers=1",
                       "cluster.shards=2", "worker.group={pipeline_stages:2}",
                       "worker.micro_batch=8", group=True) as run:
                shard = f"shard 1 at {network.address('other')}:{PORT}"
                run.await_status(
                    lambda s: "worker 0, which cannot reach "
                    f"{shard} from member 1" in s.get("waiting_for", ""),
                    "the status to name both")
                self.assertEqual(
                    run.processes["w1"].wait(timeout=harness.TIMEOUT_S), 75)
                self.assertIn(f"{shard}: no connection for 8s "
                              "(limits.start_timeout_s)", run.log("w1"))


if __name__ == "__main__":
    harness.main()
