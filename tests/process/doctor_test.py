#!/usr/bin/python3 -B
"""`sluice doctor`: what it says of a machine that works, and of what does not."""

import json
import resource
import socket
import subprocess
import unittest

import harness


def examine(*flags, **kwargs):
    """Exit status, and what -> finding."""
    result = harness.tool("doctor", "--json", *flags, **kwargs)
    findings = json.loads(result.stdout)
    return result.returncode, {f["what"]: f for f in findings}


def size_of(path):
    """0 where it is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


class DoctorTest(unittest.TestCase):

    def test_a_machine_on_which_the_tests_run_is_good_enough(self):
        folder = harness.scratch()
        status, found = examine("--run-dir", folder / "not" / "there")
        self.assertEqual(status, 0, found)
        self.assertEqual(found["disk"]["level"], "good", found["disk"])
        self.assertIn(f"{folder}: 16 MiB written", found["disk"]["found"])
        self.assertEqual(list(folder.iterdir()), [])
        self.assertEqual(found["programs"]["level"], "good")
        self.assertIn("AVX2", found["processor"]["found"])
        text = harness.tool("doctor", "--run-dir", folder)
        for finding in found:
            self.assertIn(finding, text.stdout)

    def test_too_few_open_files_are_named(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
        status, found = examine("--run-dir", harness.scratch(), preexec_fn=few)
        self.assertEqual(status, 1)
        self.assertEqual(found["open files"]["level"], "bad")
        self.assertIn("128", found["open files"]["found"])
        self.assertIn("4096", found["open files"]["advice"])

    def test_a_folder_that_cannot_be_written_to_is_named(self):
        status, found = examine("--run-dir", "/proc/sluice")
        self.assertEqual(status, 1)
        self.assertEqual(found["disk"]["level"], "bad")
        self.assertIn("/proc/.sluice-doctor", found["disk"]["found"])

    def test_who_interrupts_it_finds_nothing_of_what_it_wrote(self):
        folder, seen = harness.scratch(), set()
        process = subprocess.Popen(
            [harness.TOOL, "doctor", "--run-dir", folder],
            stdout=subprocess.DEVNULL)
        while process.poll() is None:
            seen |= {size for path in folder.iterdir()
                     if (size := size_of(path))}
        self.assertEqual(seen, set())

    def test_each_address_of_a_name_is_tried(self):
        hosts = harness.scratch() / "hosts"
        hosts.write_text("127.0.0.1 both\n127.0.0.2 both\n")
        alone = ["unshare", "--map-root-user", "--mount", "sh", "-c",
                 'mount --bind "$0" /etc/hosts && exec "$@"', hosts]
        if subprocess.run([*alone, "true"], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("SKIPPED: no mount namespaces")
        for address in "127.0.0.1", "127.0.0.2":
            with socket.create_server((address, 0)) as listening:
                result = subprocess.run(
                    [*alone, harness.TOOL, "doctor", "--run-dir",
                     harness.scratch(), "--reach",
                     f"both:{listening.getsockname()[1]}"],
                    capture_output=True, text=True, check=False)
                self.assertEqual(result.returncode, 0, result.stdout)

    def test_whom_it_cannot_reach_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            status, found = examine("--run-dir", harness.scratch(),
                                    f"--reach={address}")
            self.assertEqual((status, found["reach"]["level"]), (0, "good"))
        for address, why in ((f"127.0.0.1:{harness.reserve_port()}", "refused"),
                             ("7000", "host:port")):
            with self.subTest(address=address):
                status, found = examine("--run-dir", harness.scratch(),
                                        f"--reach={address}")
                self.assertEqual((status, found["reach"]["level"]), (1, "bad"))
                self.assertIn(why, found["reach"]["found"] +
                              found["reach"]["advice"])


if __name__ == "__main__":
    harness.main()
