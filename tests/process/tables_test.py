#!/usr/bin/python3 -B
"""The tables in the documents are what their commands print."""

import json
import re
import subprocess
import unittest

import harness
from documents import commands, run_short


class TablesTest(unittest.TestCase):

    def test_the_table_of_costs_is_made_by_its_command(self):
        [command] = commands("docs/architecture.md", "bench/")
        result = subprocess.run(
            [harness.ROOT / "bench" / command, "--tiny", "--json",
             "--tool", harness.TOOL],
            capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(result.stdout)["rows"]
        text = (harness.ROOT / "docs/architecture.md").read_text()
        policies = dict.fromkeys(row["what"].split(",")[0] for row in rows)
        self.assertEqual(list(policies),
                         re.findall(r"^\| (\w*SYNC) \| \d", text, re.M))
        for row in rows:
            # Some of the cancelled workers have begun to push, each at most
            # once.
            most = 2.1 if row["what"].endswith("pushed") else 1.1
            # At the end of the run a task or two do not belong to an update.
            self.assertLess(row["ratio"], most, row)
            self.assertGreater(row["ratio"], 0.9, row)

    def test_the_table_of_accuracies_is_made_by_its_command(self):
        [command] = commands("docs/policies.md", "bench/")
        result = subprocess.run(
            [harness.ROOT / "bench" / command, "--seeds", "1", "--set",
             "stop.updates=2", "--tool", harness.TOOL],
            capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stderr)
        text = (harness.ROOT / "docs/policies.md").read_text()
        for row in result.stdout.splitlines()[2:]:
            # The documented row of the same job, with its figures filled in.
            name = row[:row.index("|", 2) + 1]
            self.assertRegex(text, re.escape(name) + r"( 0\.\d{4} \|){3}")
        self.assertEqual(len(result.stdout.splitlines()), 2 + 8)

    def test_the_table_of_times_is_made_by_its_command(self):
        [command] = commands("docs/simulation.md", "bench/")
        result = subprocess.run(
            [harness.ROOT / "bench" / command, "--workers=2", "--k=1",
             "--mean-ms=5", "--gradients=40", "--precision=0.1", "--json",
             "--tool", harness.TOOL],
            capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [row for row in json.loads(result.stdout)["rows"]
                if row["what"].endswith(", daemons")]
        text = (harness.ROOT / "docs/simulation.md").read_text()
        self.assertEqual([row["what"].split(",")[0] for row in rows],
                         re.findall(r"^\| (\w*SYNC) \|", text,
                                    re.MULTILINE))
        for row in rows:
            # The delay takes effect: an update takes at least half of the time
            # that theory says, over at least forty draws.
            self.assertLess(row["measured"], 2 * row["expected"], row)

    def test_the_advice_is_what_its_command_prints(self):
        command = commands("docs/advise.md", r"\./sluice advise ")[0]
        folder = harness.scratch()
        (folder / "configs").symlink_to(harness.ROOT / "configs")
        result = run_short("./sluice advise " + command, folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        text = (harness.ROOT / "docs/advise.md").read_text()
        printed = "\n".join("    " + line if line else "" for line in
                            result.stdout.splitlines()[:-2])
        self.assertIn(printed + "\n", text)


if __name__ == "__main__":
    harness.main()
