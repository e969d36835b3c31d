#!/usr/bin/python3 -B
"""Daemons and tool under mutual TLS."""

import re
import shutil
import subprocess
import time
import unittest

import cluster
import harness
from tls_run import TlsRun, certs


def s_client(address, *args):
    """What openssl says of a TLS connection to the address. It goes on
    reading until the server's answer, so that a refusal is seen."""
    result = subprocess.run(
        ["openssl", "s_client", "-connect", address, *map(str, args)],
        input="", capture_output=True, text=True, errors="replace",
        timeout=harness.TIMEOUT_S)
    return result.stdout + result.stderr


class TlsTest(unittest.TestCase):

    def test_a_launched_run_has_the_bits_of_one_in_plain_text(self):
        folder = certs(harness.scratch() / "certs")
        job = harness.write_job(harness.LINEAR_JOB)
        plain = harness.train(job)
        with_tls = harness.train(job, "--tls", folder)
        self.assertEqual(with_tls.summary["weights_sha256"],
                         plain.summary["weights_sha256"])
        self.assertIn("tls=true", (with_tls.dir / "ps_server-0.log").read_text())
        self.assertIn("tls=false", (plain.dir / "ps_server-0.log").read_text())

    def test_daemons_with_their_roles_train_and_only_they_are_answered(self):
        folder = certs(harness.scratch() / "certs")
        foreign = certs(harness.scratch() / "foreign")
        with TlsRun(folder, run_dir=True) as run:
            run.await_training()
            # Plain text, and another CA's operator.
            for flags, said in [([], "is --tls missing?"),
                                ([f"--tls={foreign / 'operator'}"], "")]:
                # It answers, and is not looked for elsewhere.
                by_folder = harness.tool("status", run.dir / "run", *flags)
                self.assertIn(said, by_folder.stderr)
                self.assertNotIn("was killed", by_folder.stderr)
                refused = run.status(*flags)
                self.assertEqual(refused.returncode, 1, refused.stdout)
                self.assertEqual(refused.stdout, "")
                self.assertIn(said, refused.stderr)
                self.assertNotIn(".cc:", refused.stderr)  # As gRPC logs.
            worker = folder / "worker"
            own = ["-cert", worker / "tls.crt", "-key", worker / "tls.key",
                   "-CAfile", worker / "ca.crt", "-alpn", "h2"]
            verify_failures = run.log("shard 0").count(
                "certificate verify failed")
            for version in ["-tls1_2", "-tls1_3"]:
                said = s_client(run.lead, version, *own)
                self.assertIn("Verify return code: 0 (ok)", said)
                self.assertNotIn("alert", said)
            # A certificate that its holder has signed.
            alone = harness.scratch()
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
                 "/CN=worker", "-addext",
                 "subjectAltName=URI:spiffe://sluice/linear/worker",
                 "-keyout", alone / "tls.key", "-out", alone / "tls.crt"],
                check=True, capture_output=True, timeout=harness.TIMEOUT_S)
            s_client(run.lead, "-alpn", "h2", "-cert", alone / "tls.crt",
                     "-key", alone / "tls.key")
            harness.wait_until(
                lambda: run.log("shard 0").count("certificate verify failed") >
                verify_failures, "the refusal", run.processes["shard 0"])
            stranger = foreign / "worker"
            for flags in [["-tls1_2"],
                          ["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"],
                          ["-cert", stranger / "tls.crt", "-key",
                           stranger / "tls.key"]]:
                s_client(run.lead, "-alpn", "h2", *flags)
            # The server closes the connection, and its log says why.
            for reason in ["certificate verify failed", "wrong version number",
                           "peer did not return a certificate",
                           "unsupported protocol"]:
                self.assertRegex(run.log("shard 0"),
                                 f'event=handshake_failed reason=".*{reason}')

    def test_who_refuses_the_server_says_so_in_its_own_log(self):
        folder = certs(harness.scratch() / "certs")
        foreign = certs(harness.scratch() / "foreign")
        with TlsRun(folder) as run:
            worker = subprocess.run(
                [harness.WORKER, f"--job={run.job}", "--worker=0",
                 f"--coordinator={run.lead}", f"--tls={foreign / 'worker'}",
                 *harness.sets(["limits.start_timeout_s=3"])],
                capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        self.assertEqual(worker.returncode, 75, worker.stderr)
        self.assertRegex(worker.stderr, 'event=handshake_failed '
                         'reason=".*certificate verify failed')
        for line in worker.stderr.splitlines():
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\S+Z (info|warning|error) ")

    def test_who_has_the_wrong_files_says_so_before_it_dials(self):
        folder = certs(harness.scratch() / "certs")
        other = certs(harness.scratch() / "other", job="other")
        short = certs(harness.scratch() / "short", "--lifetime=1s")
        mixed = harness.scratch()
        for name, source in [("ca.crt", folder / "worker"),
                             ("tls.crt", folder / "worker"),
                             ("tls.key", folder / "shard")]:
            (mixed / name).write_bytes((source / name).read_bytes())
        job = harness.write_job(harness.LINEAR_JOB)
        time.sleep(1)  # Until the short one has expired.
        for tls, said in [
                (harness.scratch(), "ca.crt"),
                (folder / "shard", "is for spiffe://sluice/linear/shard, "
                 "expected spiffe://sluice/linear/worker"),
                (other / "worker", "is for spiffe://sluice/other/worker"),
                (short / "worker", "the certificate expired at"),
                (mixed, "is not the key of")]:
            result = subprocess.run(
                [harness.WORKER, f"--job={job}", "--worker=0",
                 "--coordinator=127.0.0.1:1", f"--tls={tls}"],
                capture_output=True, text=True, timeout=harness.TIMEOUT_S)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(said, result.stderr)

    def test_plain_text_stays_on_the_loopback_unless_insecure_is_said(self):
        job = f"--job={harness.write_job(harness.LINEAR_JOB)}"
        # 192.0.2.0/24 belongs to no host (RFC 5737).
        far = "192.0.2.1:7000"
        for command in [
                [harness.PS_SERVER, job, "--shard=0"],
                [harness.PS_SERVER, job, "--shard=0", "--listen=0.0.0.0:0"],
                [harness.PS_SERVER, job, "--shard=1", f"--coordinator={far}",
                 "--listen=127.0.0.1:0"],
                [harness.WORKER, job, "--worker=0", f"--coordinator={far}"],
                [harness.EVALUATOR, job, f"--coordinator={far}"],
                [harness.TOOL, "status", far]]:
            with self.subTest(command=command):
                result = subprocess.run(command, capture_output=True,
                                        text=True, timeout=harness.TIMEOUT_S)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn("is not on the loopback", result.stderr)
        # With --insecure it gets as far as the network.
        result = subprocess.run(
            [harness.PS_SERVER, job, "--shard=0", f"--listen={far}",
             "--insecure"], capture_output=True, text=True,
            timeout=harness.TIMEOUT_S)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(f"cannot listen on {far}", result.stderr)

    def test_workers_whose_key_is_revoked_are_started_again_with_a_new_one(self):
        folder = certs(harness.scratch() / "certs")
        renewed = harness.scratch() / "renewed"
        shutil.copytree(folder, renewed)
        for flags in ([f"--revoke={renewed / 'worker/tls.crt'}"], ["--renew"]):
            harness.tool("certs", renewed, *flags).check_returncode()
        job = harness.write_job(harness.LINEAR_JOB.replace(
            "epochs: 2", "seconds: 600"))
        with cluster.Training(job, tls=folder) as run:
            run.await_version(5)
            pids = run.pids()
            for name in ("tls.crt", "tls.key"):
                shutil.copy(renewed / "worker" / name, folder / "worker")
            for role in ("lead", "shard", "worker", "evaluator"):
                shutil.copy(renewed / role / "ca.crl", folder / role)
            harness.wait_until(
                lambda: all(run.pids().get(name, pids[name]) != pids[name]
                            for name in ("worker-0", "worker-1")),
                "other workers", run.process)
            run.await_status(
                lambda s: all(w["state"] in ("computing", "waiting")
                              for w in s["worker"]), "them to join")
            run.await_version(run.await_version(0)["version"] + 5)
            run.interrupt()
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            self.assertRegex(output, r"worker-\d: exit status 75: shard \d at "
                             ".*, is revoked; starting it again")

    def test_a_run_outlives_its_certificates_through_one_rotation(self):
        folder = harness.scratch() / "certs"
        begun = time.monotonic()
        lifetime = 20
        certs(folder, f"--lifetime={lifetime}s")
        worker = folder / "worker"

        def serial(address):
            # The connection's certificate, whatever the file says by now.
            text = s_client(address, "-cert", worker / "tls.crt", "-key",
                            worker / "tls.key", "-showcerts")
            pem = re.search("-----BEGIN.*?-----END CERTIFICATE-----\n", text,
                            re.S)
            return pem and pem[0]

        with TlsRun(folder) as run:
            run.await_training()
            before = serial(run.lead)
            self.assertIsNotNone(before)
            run.await_status(
                lambda s: 0 < (s["certificate_expires_s"] or 0) <= lifetime,
                "the status to say when certificates expire")
            self.assertIn("event=certificate_expires", run.log("shard 0"))
            renewed = harness.tool("certs", folder, "--renew",
                                   "--lifetime=1h")
            self.assertEqual(renewed.returncode, 0, renewed.stderr)
            harness.wait_until(lambda: serial(run.lead) not in (None, before),
                               "the new certificate", run.processes["shard 0"])
            harness.wait_until(
                lambda: time.monotonic() > begun + lifetime + 1,
                "the first certificates to expire")
            # New connections after the expiry: a worker that starts again.
            before = run.await_training()
            run.kill("worker 1")
            run.start("worker 1")
            again = run.await_status(
                lambda s: s["worker"][1]["incarnation"] !=
                before["worker"][1]["incarnation"], "the worker to join")
            run.await_status(lambda s: s["version"] > again["version"],
                             "an update after that")
            self.assertEqual(again["generation"], 1)
            # The new ones last for an hour.
            self.assertGreater(again["certificate_expires_s"], 1800)


if __name__ == "__main__":
    harness.main()
