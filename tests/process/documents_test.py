#!/usr/bin/python3 -B
"""The commands in the documents do what the documents say."""

import json
import re
import shlex
import subprocess
import unittest

import harness
from documents import code_lines, commands, run_short

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "configs/README.md",
             "docker/README.md",
             *sorted(f"docs/{p.name}" for p in
                     (harness.ROOT / "docs").glob("*.md"))]

# The beginning of a line of a document's code that is a command.
COMMAND = re.compile(r"(\./sluice|docker|docker-compose|clang-format|"
                     r"[a-z_]+(/[a-z_]+)*/[a-z_]+\.(py|sh))( |$)")

# Commands that this test does not run, each with the reason.
NOT_RUN = {
    r"\./sluice (test|build)\b.*": "Bazel itself, which runs this test",
    r"\./sluice bench \w+( --.*)?": "benchmarks_test runs every benchmark, tiny",
    r"\./sluice status 127.0.0.1:7000 --json":
        "of a run that goes on: bad_input_test asks for one",
    r"\./sluice (status|stop) hostA:7000 .*":
        "of a run on other hosts: tls_test asks one for its status, yield_test "
        "ends one",
    r"\./sluice checkpoint runs/stored":
        "of a run that goes on: checkpoints_test asks for one",
    r"\./sluice train .* --resume .*":
        "resume_test goes on with runs; of five updates nothing is left",
    r"tests/torch_of_pypi\.sh FOLDER": "fetches 5 GB",
    r"bench/peers/ps_lite\.sh FOLDER.*": "needs the sources of ps-lite",
    r"tools/make_image_tree\.py images|\./sluice train images\.textproto":
        "images_test makes such a tree and trains the document's job on it",
    r"\./sluice wheel wheels": "wheel_test makes one and installs it",
    r"\./sluice train lenet/.*": "torch_test trains the same example",
    r"\./sluice deploy kubernetes lenet/.*":
        "of a job that PyTorch has made: kubernetes_test deploys another "
        "one with a program",
    r"docker(-compose)? .*": "needs root and a Docker engine: docker/try.sh does the same",
    r"docker/try\.sh": "compiles the whole tree as root, ten minutes",
    r"tests/mutations/run_mutations\.py.*": "compiles the tree for each mutation",
    r"tests/(fuzz/run|locks)\.sh.*": "continuous integration calls them",
    r"tests/fuzz/make_corpus\.py": "writes into the tree",
    r"tests/tidy/tidy_test\.py": "is a test itself",
    r"\./sluice advise configs/fashion_mnist_lenet.*":
        "minutes: tables_test and advise_test ask the same of a small job",
    r"\./sluice train .* --http=127.0.0.1:8080":
        "takes a fixed port: live_page_test trains with a free one",
    r"\./sluice ui .*": "goes on until Ctrl-C: live_page_test shows runs",
    r"bench/chaos\.py.*": "twenty minutes; benchmarks_test runs it, tiny",
    r"\./sluice chaos configs/fashion_mnist_lenet.*":
        "a minute: chaos_test and another command here disturb a small job",
    r"docs/make_policy_figure\.py": "plot_test runs it, short",
    r"docs/make_page_pictures\.py": "live_page_test takes the pictures",
    r"docs/make_pipeline_picture\.py .*": "pipeline_test draws one",
    r"docs/make_job_md\.py": "writes into the tree: tidy_test has it compare",
    r"clang-format -i FILE": "writes into the tree",
    r"tools/gpu_bundle/pack\.py .*|\./run\.py( --.*)?":
        "gpu_bundle_test packs a bundle and runs what is in it",
    r"bench/(policy_accuracy|policy_times|update_cost)\.py":
        "tables_test compares its table with the document's",
}


def shown_jobs(document):
    """The jobs that a document shows in full: its blocks of ```textproto."""
    return re.findall(r"^```textproto\n(.*?)^```$",
                      (harness.ROOT / document).read_text(), re.M | re.S)


def reason_not_to_run(command):
    """The entry of NOT_RUN that matches the command, or None."""
    return next((p for p in NOT_RUN if re.fullmatch(p, command)), None)


# The folders of the tests that a table names without a folder.
FOLDERS = ["common/process", "common/telemetry", "kernels/cpu",
           "ps_server/checkpoint", "ps_server/coordinator/core",
           "ps_server/coordinator/log", "ps_server/coordinator/members",
           "ps_server/coordinator/report", "ps_server/coordinator/session",
           "ps_server/live", "ps_server/shard", "tests", "tests/process",
           "worker/exchange"]


def failure_rows():
    """(what, cells) for each row of docs/failures.md."""
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
                          r"\nTEST(_F|_P)?\(" + name.replace(".", ",\\s+") +
                          r"\)")
                sources = [harness.ROOT / folder / (file + ending)
                           for folder in FOLDERS for ending in (".py", ".cc")]
                text = "".join(p.read_text() for p in sources if p.exists())
                self.assertRegex(text, wanted)

    def test_every_command_runs_or_is_listed_with_its_reason(self):
        listed, found = set(), 0
        for document in DOCUMENTS:
            # One folder per document: `eval` finds the run of its `train`.
            folder = harness.scratch()
            for name in ["configs", "docs"]:
                (folder / name).symlink_to(harness.ROOT / name)
            for job in shown_jobs(document):
                (folder / "job.textproto").write_text(job)
            for command in filter(COMMAND.match, code_lines(document)):
                with self.subTest(document=document, command=command):
                    reason = reason_not_to_run(command)
                    listed.add(reason)
                    if reason is not None:
                        continue
                    self.assertTrue(command.startswith("./sluice "),
                                    "neither run nor in NOT_RUN")
                    result = run_short(command, folder)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    found += 1
        self.assertGreaterEqual(found, 8)
        self.assertEqual(set(NOT_RUN) - listed, set(),
                         "listed, but no document names it")

    def test_every_command_that_a_sentence_names_exists(self):
        helped = subprocess.run([harness.TOOL, "--help"], text=True,
                                capture_output=True, check=True).stdout
        script = (harness.ROOT / "sluice").read_text()
        known = (re.findall(r"^  ([a-z]+) +[A-Z]", helped, re.M) +
                 re.findall(r"^#   \./sluice ([a-z]+)", script, re.M))
        self.assertIn("train", known)
        self.assertIn("build", known)
        for name in re.findall(r"\./sluice bench (\w+)", "\n".join(
                "\n".join(code_lines(d)) for d in DOCUMENTS)):
            files = [harness.ROOT / f"bench/{name}{end}"
                     for end in (".py", ".cc")]
            self.assertTrue(any(f.exists() for f in files), files)
        for document in DOCUMENTS:
            if document == "docs/job.md":
                continue  # Generated from the comments of proto/job.proto.
            text = (harness.ROOT / document).read_text()
            for word in re.findall(r"`(?:\./)?sluice ([a-z]+)", text):
                with self.subTest(document=document):
                    self.assertIn(word, known)

    def test_every_message_and_call_is_in_the_protocol(self):
        text = (harness.ROOT / "docs/protocol.md").read_text()
        for name in ["coordinator", "exchange", "member", "commit_log",
                     "key"]:
            proto = (harness.ROOT / f"proto/{name}.proto").read_text()
            for word in re.findall(r"^ *(?:rpc|service) (\w+)", proto, re.M):
                self.assertTrue(f"`{word}`" in text, word)
            for body in re.findall(r"oneof \w+ \{(.*?)\n  \}", proto, re.S):
                for kind in re.findall(r"^ +([A-Z]\w+) \w+ = ", body, re.M):
                    self.assertTrue(f"`{kind}`" in text, kind)

    def test_the_files_of_a_run_are_as_the_protocol_says(self):
        text = (harness.ROOT / "docs/protocol.md").read_text()

        def members(section):
            table = re.search(rf"^### {section}\n(.*?)(^### |\Z)", text,
                              re.M | re.S)[1]
            cells = re.findall(r"^\| (`.*?) \|", table, re.M)
            # Of "gradients.applied" the object's name.
            return set(re.findall(r"`(\w+)[\w.]*`", " ".join(cells)))

        run = harness.train(harness.write_job(harness.LINEAR_JOB),
                            *harness.sets(["checkpoint.every_updates=20",
                                           "delays.compute.constant.ms=10"]))
        counters = members("Counters of a run")
        logged = {"logged", "test_logged"}  # By a user's program alone.
        self.assertEqual(set(run.summary) | logged,
                         members("summary.json") | counters)
        lines = [json.loads(line) for line in
                 (run.dir / "metrics.jsonl").read_text().splitlines()]
        # Also of an evaluation that comes within the first second.
        for line in lines:
            if line["version"] > lines[0]["version"]:
                self.assertGreater(line["updates_per_second"], 0, line)
        seen = set().union(*lines)
        # A regression has no accuracy.
        self.assertEqual(seen | logged | {"test_accuracy"},
                         members("metrics.jsonl") | counters)
        self.assertRegex((run.dir / "addresses").read_text(),
                         r"\Acoordinator \S+:\d+\n(shard \d+ \S+:\d+\n){2}run \S+\n\Z")
        for name in ["addresses", "job.textproto", "commit_log",
                     "metrics.jsonl", "summary.json", "weights.safetensors"]:
            self.assertTrue((run.dir / name).is_file(), name)
            self.assertIn(f"### {name}\n", text)

    def make_certificates(self, folder, document):
        [command] = [line for line in code_lines(document)
                     if line.startswith("./sluice certs ")]
        result = run_short(command, folder)
        self.assertEqual(result.returncode, 0, result.stderr)

    def run_daemons(self, folder, lines):
        """Starts all daemons in `folder`. Each must succeed."""
        first, second = harness.reserve_port(), harness.reserve_port()
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
        return json.loads((folder / "run/summary.json").read_text())

    def test_the_daemons_started_as_the_readme_says_train_its_job(self):
        lines = commands("README.md", r"host[A-Z]\$ ")
        self.assertEqual(len(lines), 6)
        [job] = shown_jobs("README.md")
        self.assertEqual(len(job.splitlines()), 10)
        folder = harness.scratch()
        (folder / "run").mkdir()
        (folder / "job.textproto").write_text(
            job.replace("stop { epochs: 4 }", "stop { updates: 5 }"))
        self.make_certificates(folder, "README.md")
        self.assertEqual(self.run_daemons(folder, lines)["version"], 5)

    def test_the_daemons_started_as_the_document_says_train_and_go_on(self):
        # any_number_test starts workers without a number of their own,
        # own_disks_test shards with a disk of their own.
        lines = [line for line in commands("docs/operations.md",
                                           r"host[A-Z]\$ ")
                 if "--worker=any" not in line and
                 "--checkpoint-dir" not in line]
        self.assertEqual(len(lines), 8)
        folder = harness.scratch()
        (folder / "run").mkdir()
        # The third worker is one of the job's workers, because a joining one
        # might come too late.
        job = harness.LINEAR_JOB.replace("workers: 2", "workers: 3") + (
            "checkpoint { every_updates: 10 } output { run_dir: \"run\" }")
        (folder / "job.textproto").write_text(job)
        self.make_certificates(folder, "docs/operations.md")
        self.assertEqual(self.run_daemons(folder, lines[:6])["epochs"], 2)
        self.assertTrue((folder / "run/weights.safetensors").exists())
        (folder / "job.textproto").write_text(
            job.replace("epochs: 2", "epochs: 3"))
        self.assertEqual(
            self.run_daemons(folder, lines[6:] + lines[2:6])["epochs"], 3)


if __name__ == "__main__":
    harness.main()
