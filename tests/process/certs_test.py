#!/usr/bin/python3 -B
"""`sluice certs`: what it makes is what another program, openssl, takes it
for."""

import os
import re
import subprocess
import unittest

import harness

ROLES = ["lead", "shard", "worker", "evaluator", "operator"]


def openssl(*args):
    """(exit status, what it printed)."""
    result = subprocess.run(["openssl", *map(str, args)], text=True,
                            capture_output=True, timeout=harness.TIMEOUT_S)
    return result.returncode, result.stdout + result.stderr


def made(folder, *args):
    result = harness.tool("certs", folder, "--job=linear",
                          "--hosts=lead.example,10.0.0.7", *args)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result


def verified(role, purpose, *args):
    """What openssl says of the certificate in the folder of a role, with the
    authority and the revocation list there."""
    return openssl("verify", "-x509_strict", "-purpose", purpose,
                   "-CAfile", role / "ca.crt", "-crl_check",
                   "-CRLfile", role / "ca.crl", *args, role / "tls.crt")


class CertsTest(unittest.TestCase):

    def test_openssl_verifies_what_it_makes(self):
        folder = harness.scratch() / "certs"
        made(folder)
        for role in ROLES:
            with self.subTest(role=role):
                status, said = verified(folder / role, "sslclient")
                self.assertEqual(status, 0, said)
                status, said = verified(folder / role, "sslserver")
                self.assertEqual(status == 0,
                                 role in ("lead", "shard", "worker"), said)
                _, text = openssl("x509", "-noout", "-text", "-in",
                                  folder / role / "tls.crt")
                self.assertIn(f"URI:spiffe://sluice/linear/{role}", text)
                self.assertEqual(
                    "DNS:lead.example, IP Address:10.0.0.7" in text,
                    role in ("lead", "shard"), text)
                self.assertIn("ecdsa-with-SHA256", text)
                self.assertIn("ASN1 OID: prime256v1", text)
                status, said = openssl("pkey", "-check", "-noout", "-in",
                                       folder / role / "tls.key")
                self.assertEqual(status, 0, said)

    def test_a_foreign_authority_does_not_verify_it(self):
        folder, other = harness.scratch() / "a", harness.scratch() / "b"
        made(folder)
        made(other)
        status, said = openssl("verify", "-CAfile", other / "lead/ca.crt",
                               folder / "lead/tls.crt")
        self.assertNotEqual(status, 0, said)

    def test_openssl_refuses_what_was_revoked_until_it_is_renewed(self):
        folder = harness.scratch() / "certs"
        made(folder)
        worker = folder / "worker"
        revoked = harness.tool("certs", folder, "--revoke",
                               worker / "tls.crt")
        self.assertEqual(revoked.returncode, 0, revoked.stderr)
        status, said = verified(worker, "sslclient")
        self.assertIn("certificate revoked", said)
        self.assertNotEqual(status, 0)
        self.assertEqual(verified(folder / "lead", "sslserver")[0], 0)
        renewed = harness.tool("certs", folder, "--renew")
        self.assertEqual(renewed.returncode, 0, renewed.stderr)
        status, said = verified(worker, "sslclient")
        self.assertEqual(status, 0, said)

    def test_lifetimes_are_as_the_flags_say(self):
        folder = harness.scratch() / "certs"
        result = made(folder, "--lifetime=2h", "--ca-lifetime=1d")
        self.assertIn("/ca/ca.key signs certificates; keep it here",
                      result.stdout)
        for path, hours in [("ca/ca.crt", 24), ("lead/tls.crt", 2)]:
            for seconds, valid in [(hours * 3600 - 60, True),
                                   (hours * 3600 + 60, False)]:
                status, said = openssl("x509", "-noout", "-checkend", seconds,
                                       "-in", folder / path)
                self.assertEqual(status == 0, valid, said)

    def test_containers_that_begin_again_have_certificates_that_are_valid(self):
        text = (harness.ROOT / "docker/docker-compose.yml").read_text()
        [command] = re.findall(r' sh -c "([^"]+)"', text)
        folder = harness.scratch()
        def begin():
            subprocess.run(
                ["sh", "-c", command], cwd=folder, check=True,
                env={"PATH": f"{harness.TOOL.parent}:{os.environ['PATH']}"})
            for role in ROLES:
                status, said = openssl("x509", "-checkend", 80 * 86400, "-in",
                                       folder / "certs" / role / "tls.crt")
                self.assertEqual(status, 0, f"{role}: {said}")
        begin()
        # As after 90 days.
        harness.tool("certs", folder / "certs", "--renew",
                     "--lifetime=1s").check_returncode()
        begin()
        # One that was killed before it had made all of them.
        (folder / "certs/shard/tls.crt").unlink()
        begin()

    def test_mistakes_are_refused_with_2_and_named(self):
        folder = harness.scratch() / "certs"
        for args, said in [
                (["--job=a/b", "--hosts=h"], 'is "a/b"'),
                (["--job=a\nb", "--hosts=h"], r'is "a\nb"'),
                (["--job=a", "--hosts=h:7000"], '"h:7000" is neither'),
                (["--job=a"], "need --job and --hosts"),
                (["--job=a", "--hosts=h", "--lifetime=90"], "--lifetime: "),
                (["--job=a", "--hosts=h", "--lifetime=9d", "--ca-lifetime=8d"],
                 "its CA only until"),
                (["--renew"], "ca/ca.crt"),
                (["--renew", "--replace"], "excludes"),
                (["--revoke=worker/tls.crt", "--hosts=h"], "excludes"),
                (["--revoke=worker/tls.crt", "--lifetime=9d"], "excludes"),
                (["--revoke=/no/such.crt"], "ca/ca.crt")]:
            with self.subTest(args=args):
                result = harness.tool("certs", folder, *args)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(said, result.stderr)
                self.assertFalse(folder.exists())
        made(folder)
        revoked = harness.tool("certs", folder, "--revoke",
                               folder / "ca" / "ca.crt")
        self.assertEqual(revoked.returncode, 2)
        self.assertIn("is not spiffe://sluice/JOB/ROLE", revoked.stderr)
        again = harness.tool("certs", folder, "--job=linear", "--hosts=h")
        self.assertEqual(again.returncode, 2)
        self.assertIn("--replace begins with a new one", again.stderr)
        made(folder, "--replace")


if __name__ == "__main__":
    harness.main()
