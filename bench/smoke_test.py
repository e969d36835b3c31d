#!/usr/bin/python3 -B
"""Every benchmark runs, verifies what it verifies, and reports in one shape."""

import json
import pathlib
import subprocess
import sys
import unittest

BENCH = pathlib.Path(__file__).absolute().parent
sys.path.insert(0, str(BENCH.parent / "tests/process"))
import harness  # noqa: E402

# As `./sluice bench NAME` knows them.
NAMES = ["compute"]


def tiny_report(name):
    program = ([str(BENCH / name)] if (BENCH / name).exists() else
               ["/usr/bin/python3", "-B", str(BENCH / f"{name}.py")])
    result = subprocess.run([*program, "--tiny", "--json"], timeout=120,
                            capture_output=True, text=True)
    if result.returncode != 0:
        raise AssertionError(f"{name}: {result.stdout}\n{result.stderr}")
    return json.loads(result.stdout)


class SmokeTest(unittest.TestCase):
    def test_every_benchmark_reports_measured_beside_expected(self):
        for name in NAMES:
            with self.subTest(name):
                report = tiny_report(name)
                self.assertEqual(report["name"], name)
                self.assertTrue(report["question"].endswith("?"))
                self.assertTrue(report["rows"])
                for row in report["rows"]:
                    self.assertGreater(row["expected"], 0, row)
                    self.assertGreater(row["measured"], 0, row)
                    self.assertAlmostEqual(
                        row["ratio"], row["measured"] / row["expected"])
                    self.assertTrue(
                        row["what"] and row["unit"] and row["expected_from"])


if __name__ == "__main__":
    harness.main()
