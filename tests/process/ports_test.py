#!/usr/bin/python3 -B
"""Where processes listen, and which peers they accept."""

import json
import resource
import signal
import socket
import subprocess
import unittest

import cluster
import harness


def ipv6_is_there():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


def may_mount():
    return subprocess.run(["unshare", "--mount", "true"],
                          stderr=subprocess.DEVNULL).returncode == 0


class PortsTest(unittest.TestCase):

    @unittest.skipUnless(ipv6_is_there(), "SKIPPED: no IPv6 here")
    def test_a_run_over_ipv6(self):
        lead, other = harness.reserve_port("::1"), harness.reserve_port("::")
        to = [f"--job={harness.write_job(harness.LINEAR_JOB)}",
              f"--coordinator=[::1]:{lead}"]
        folder = harness.scratch()
        harness.run_together({
            "ps_server-0": [harness.PS_SERVER, "--shard=0", *to,
                            f"--listen=[::1]:{lead}", f"--run-dir={folder}"],
            "ps_server-1": [harness.PS_SERVER, "--shard=1", *to,
                            f"--listen=[::]:{other}",
                            f"--advertise=[::1]:{other}", "--insecure"],
            "worker-0": [harness.WORKER, "--worker=0", *to],
            "worker-1": [harness.WORKER, "--worker=1", *to],
            "evaluator": [harness.EVALUATOR, *to]}, folder)
        self.assertEqual((folder / "addresses").read_text().split()[:-1],
                         ["coordinator", f"[::1]:{lead}",
                          "shard", "0", f"[::1]:{lead}",
                          "shard", "1", f"[::1]:{other}", "run"])

    def test_a_shard_keeps_its_port_from_generation_to_generation(self):
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "seconds: 600"))
        with cluster.Training(job) as run:
            before = run.await_version(2)["shard"][1]
            run.kill(run.pids()["ps_server-0"])
            after = run.await_status(
                lambda s: s["generation"] == 2 and s["phase"] == "running",
                "the next generation")["shard"][1]
            self.assertEqual(after["process"], before["process"])
            self.assertEqual(after["address"], before["address"])
            run.interrupt()
            run.end()

    @unittest.skipUnless(may_mount(), "SKIPPED: this user may not mount")
    def test_a_name_that_is_twice_in_the_hosts_file_can_be_listened_on(self):
        hosts = harness.scratch() / "hosts"
        hosts.write_text("127.0.0.1 localhost\n127.0.0.1 host localhost\n")
        for port in (0, harness.reserve_port()):
            with self.subTest(port=port):
                # It ends soon, since nobody else comes.
                lead = subprocess.run(
                    ["unshare", "--mount", "sh", "-c",
                     'mount --bind "$0" /etc/hosts && exec "$@"', hosts,
                     harness.PS_SERVER, "--shard=0",
                     f"--job={harness.write_job(harness.LINEAR_JOB)}",
                     f"--listen=localhost:{port}",
                     "--set=limits.start_timeout_s=0.2"],
                    capture_output=True, text=True, timeout=harness.TIMEOUT_S)
                self.assertIn("event=listening", lead.stderr)

    def test_a_shard_without_descriptors_refuses_and_goes_on(self):
        most = 128
        lead = harness.reserve_port()
        at = f"127.0.0.1:{lead}"
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "seconds: 600").replace("shards: 2", "shards: 1"))
        # So many workers may have more connections than there are descriptors.
        to = [f"--job={job}", f"--coordinator={at}", *harness.sets(
            ["evaluation.enabled=false", "cluster.max_workers=64"])]
        folder = harness.scratch()
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (most // 2, most))
        def status():
            result = harness.tool("status", at, "--json")
            return json.loads(result.stdout) if not result.returncode else None
        log = folder / "log"
        with open(log, "w") as file:
            server = subprocess.Popen(
                [harness.PS_SERVER, "--shard=0", *to, f"--listen={at}"],
                stderr=file, preexec_fn=limit)
        workers = [subprocess.Popen(
            [harness.WORKER, f"--worker={w}", *to], stderr=subprocess.DEVNULL)
            for w in range(2)]
        try:
            harness.wait_until(lambda: (status() or {}).get("version", 0) > 0,
                               "a version", server)
            crowd = [socket.create_connection(("127.0.0.1", lead))
                     for _ in range(most)]
            harness.wait_until(
                lambda: "event=connection_refused" in log.read_text(),
                "a refusal", server)
            self.assertIn(f"of {most} that this process may have",
                          log.read_text())
            for one in crowd:
                one.close()
            # Peers that were connected have gone on, and new ones are accepted.
            stands = harness.wait_until(status, "an answer", server)
            harness.wait_until(
                lambda: (status() or {}).get("version", 0) > stands["version"],
                "a further version", server)
            self.assertEqual([w["incarnation"] for w in status()["worker"]],
                             [1, 1])
        finally:
            for process in [*workers, server]:
                process.send_signal(signal.SIGKILL)
                process.wait()


if __name__ == "__main__":
    harness.main()
