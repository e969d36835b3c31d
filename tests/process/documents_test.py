#!/usr/bin/python3 -B
"""The commands that the documents name do what they say."""

import json
import re
import shlex
import subprocess
import unittest

import harness

DOCUMENTS = ["README.md", "docs/operations.md", "docs/simulation.md"]
# What these do is what every other test and the build itself do.
# `status` and `eval` need a run of their own: bad_input_test and inputs_test
# ask for them.
ELSEWHERE = {"demo", "test", "status", "eval"}


def commands(document, prompt):
    """The indented lines of a document that begin with `prompt`."""
    text = (harness.ROOT / document).read_text()
    return re.findall(rf"^    {prompt}(.*?)(?: +#.*)?$", text, re.MULTILINE)


# Where the tests that a table names by themselves lie.
FOLDERS = ["tests/process", "ps_server/shard", "ps_server/coordinator"]


def failure_rows():
    """(what, cells) of each row of docs/failures.md."""
    for line in (harness.ROOT / "docs/failures.md").read_text().splitlines():
        cells = [c.strip() for c in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells[0] not in ("what", "---"):
            yield cells[0].strip(), cells


class DocumentsTest(unittest.TestCase):

    def test_every_row_of_the_failures_has_a_test_that_there_is(self):
        rows = list(failure_rows())
        self.assertGreater(len(rows), 40)
        for what, cells in rows:
            with self.subTest(row=what):
                self.assertEqual(len(cells), 4, cells)
                found = re.fullmatch(r"`(\w+_test): ([\w.]+)`", cells[3])
                self.assertIsNotNone(found, cells[3])
                file, name = found.groups()
                wanted = (rf"\n    def {name}\(" if "." not in name else
                          r"\nTEST(_F)?\(" + name.replace(".", ",\\s+") +
                          r"\)")
                sources = [harness.ROOT / folder / (file + ending)
                           for folder in FOLDERS for ending in (".py", ".cc")]
                text = "".join(p.read_text() for p in sources if p.exists())
                self.assertRegex(text, wanted)

    def test_the_tools_commands_run(self):
        found = 0
        for document in DOCUMENTS:
            for command in commands(document, re.escape("./sluice ")):
                words = shlex.split(command)
                if words[0] in ELSEWHERE:
                    continue
                words[1] = harness.ROOT / words[1]
                if words[0] == "train":  # The same, but short.
                    words += ["--set", "stop.updates=5"]
                result = harness.tool(*words)
                self.assertEqual(result.returncode, 0,
                                 f"{command}\n{result.stderr}")
                found += 1
        self.assertGreaterEqual(found, 3)

    def test_the_table_of_accuracies_is_made_by_its_command(self):
        [command] = commands("docs/policies.md", "bench/")
        result = subprocess.run(
            [harness.ROOT / "bench" / command, "--seeds", "1", "--set",
             "stop.updates=2", "--tool", harness.TOOL],
            capture_output=True, text=True, timeout=harness.TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stderr)
        text = (harness.ROOT / "docs/policies.md").read_text()
        for row in result.stdout.splitlines()[2:]:
            # The documented row of the same job, its figures filled in.
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
            # The delay is really there: an update takes at least half of what
            # theory says, with forty draws at the least.
            self.assertLess(row["measured"], 2 * row["expected"], row)

    def test_the_daemons_started_as_the_document_says_train(self):
        lines = commands("docs/operations.md", r"host[A-Z]\$ ")
        self.assertEqual(len(lines), 5)
        folder = harness.scratch()
        job = harness.write_job(harness.LINEAR_JOB)
        (folder / "job.textproto").write_text(job.read_text())
        (folder / "run").mkdir()
        first, second = harness.free_ports(2)
        binaries = {"ps_server": harness.PS_SERVER, "worker": harness.WORKER,
                    "evaluator": harness.EVALUATOR}
        processes = []
        try:
            for line in lines:
                line = line.replace("hostA:7000", f"127.0.0.1:{first}")
                line = line.replace("hostB:7000", f"127.0.0.1:{second}")
                port = second if "--shard=1" in line else first
                line = line.replace("0.0.0.0:7000", f"127.0.0.1:{port}")
                words = shlex.split(line)
                processes.append(subprocess.Popen(
                    [binaries[words[0]], *words[1:]], cwd=folder,
                    stderr=subprocess.PIPE, text=True))
            for line, process in zip(lines, processes):
                _, log = process.communicate(timeout=harness.TIMEOUT_S)
                self.assertEqual(process.returncode, 0, f"{line}\n{log}")
        finally:
            for process in processes:
                process.kill()
                process.wait()
        self.assertTrue((folder / "run/weights.safetensors").exists())


if __name__ == "__main__":
    harness.main()
