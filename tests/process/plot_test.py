#!/usr/bin/python3 -B
"""`sluice plot` draws the pictures of real and simulated runs."""

import json
import re
import shlex
import shutil
import subprocess
import unittest

import harness
import ledger
from pictures import png_size, points, svg_size, words

PICTURES = ["staleness", "time", "timeline", "version"]
# A text that a program might mistake for mark-up, a command, or the end of the
# string.
ODD = "it's {/=40 a}_b `id` \\n $x & <c> \"é\""


class PlotTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        job = harness.write_job(harness.LINEAR_JOB)
        # Eight evaluations of each run.
        often = harness.sets(["evaluation.every_epochs=0.25"])
        cls.sync = harness.train(job, *often)
        cls.asynchronous = harness.train(
            job, *often, *harness.sets(["sync.policy=ASYNC"]))
        cls.simulated = harness.scratch() / "simulated"
        result = harness.tool(
            "simulate", job, "--run-dir", cls.simulated, *often,
            *harness.sets(["sync.policy=K_BATCH_SYNC", "sync.k=2",
                           "delays.compute.exponential.mean_ms=20"]),
            "--workers=4")
        assert result.returncode == 0, result.stderr

    def plot(self, *args, code=0):
        """Returns the command's output, and the folder of the pictures."""
        out = harness.scratch() / "pictures"
        result = harness.tool("plot", *args, "--out", out)
        self.assertEqual(result.returncode, code, result.stderr)
        return result, out

    def evaluations(self, run):
        lines = map(json.loads, (run / "metrics.jsonl").read_text().split("\n")
                    [:-1])
        return sum("test_loss" in line for line in lines)

    def test_real_and_simulated_runs_share_the_pictures(self):
        runs = [self.sync.dir, self.asynchronous.dir, self.simulated]
        result, out = self.plot(*runs, "--label", "lock step", "--label", ODD,
                                "--label", "simulated")
        self.assertEqual(
            sorted(p.name for p in out.iterdir()),
            sorted(f"{p}.{kind}" for p in PICTURES
                   for kind in ("gnuplot", "png", "svg")))
        for picture in PICTURES:
            with self.subTest(picture=picture):
                svg = out / f"{picture}.svg"
                self.assertIn(f"{picture}.svg", result.stdout)
                text = " ".join(words(svg))
                for label in ("lock step", ODD, "simulated"):
                    self.assertIn(label, text)
                width, height = svg_size(svg)
                self.assertEqual(width, 800)
                self.assertTrue(250 < height < 1000, height)
                self.assertEqual(png_size(out / f"{picture}.png"),
                                 (2 * width, 2 * height))
        # Each evaluation is a point of the curve, and each run a point in the
        # legend.
        expected = sum(map(self.evaluations, runs)) + len(runs)
        self.assertGreaterEqual(expected, 3 * 8 + 3)
        for picture in ("time", "version"):
            self.assertEqual(points(out / f"{picture}.svg"), expected, picture)

    def test_the_timeline_shows_each_gradient_of_the_first_updates(self):
        _, out = self.plot(self.simulated, "--updates=3")
        text = words(out / "timeline.svg")
        script = (out / "timeline.gnuplot").read_text()
        bars = script.split("$bars << END\n")[1].split("END")[0]
        books = ledger.Ledger(self.simulated / "commit_log")
        first = sum(len(books.commits[v]) for v in (1, 2, 3))
        self.assertEqual(first, 6)
        self.assertEqual(bars.count(" applied "), first)
        self.assertIn("v1", text)
        for worker in "0123":
            self.assertIn(worker, text)
        # Four workers compete for two places, so some are cancelled.
        self.assertIn("computes, cancelled", text)

    def test_accuracy_is_drawn_where_it_was_measured(self):
        run = harness.train(
            harness.ROOT / "configs/fashion_mnist_softmax.textproto",
            "--workers=1", *harness.sets(["stop.updates=8", "sync.k=1"]))
        result, out = self.plot(run.dir, self.sync.dir)
        self.assertIn("measure no accuracy", result.stderr)
        self.assertIn("Test accuracy", words(out / "time.svg"))
        self.assertEqual(
            points(out / "time.svg"),
            2 * self.evaluations(run.dir) + self.evaluations(self.sync.dir) + 2)

    def test_the_axis_of_accuracy_is_not_that_of_the_loss(self):
        run = harness.scratch() / "classified"
        shutil.copytree(self.sync.dir, run)
        lines = [json.loads(line) for line in
                 (run / "metrics.jsonl").read_text().splitlines()]
        for number, line in enumerate(lines):
            if "test_loss" in line:
                line["test_accuracy"] = 0.8 + 0.1 * number / len(lines)
        (run / "metrics.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines))
        _, out = self.plot(run)
        for picture in ("time", "version"):
            text = words(out / f"{picture}.svg")
            # Before the axis's name stand its numbers, and those of the other
            # axis, which begin with a space.
            at = text.index("accuracy") - 1
            while text[at].startswith(" "):
                at -= 1
            numbers = []
            while text[at][0].isdigit():
                numbers.append(float(text[at]))
                at -= 1
            self.assertGreaterEqual(min(numbers), 0.79, picture)
            self.assertLessEqual(max(numbers), 0.91, picture)

    def test_what_a_run_lacks_is_said_and_the_rest_is_drawn(self):
        cut = harness.scratch() / "cut"
        shutil.copytree(self.sync.dir, cut)
        (cut / "commit_log").unlink()
        (cut / "summary.json").unlink()
        metrics = (cut / "metrics.jsonl").read_bytes()
        (cut / "metrics.jsonl").write_bytes(metrics[:-9])
        result, out = self.plot(cut)
        last = metrics.count(b"\n")
        self.assertIn(f"cut: metrics.jsonl: line {last} is cut short",
                      result.stderr)
        self.assertIn("cut: no summary.json", result.stderr)
        self.assertIn("without staleness and timeline", result.stderr)
        self.assertEqual(sorted(p.name for p in out.glob("*.svg")),
                         ["time.svg", "version.svg"])
        whole = (self.evaluations(self.sync.dir) -
                 (b"test_loss" in metrics.split(b"\n")[-2]))
        self.assertEqual(points(out / "time.svg"), whole + 1)

    def test_a_run_without_evaluations_has_its_training_loss(self):
        run = harness.train(harness.write_job(harness.LINEAR_JOB),
                            *harness.sets(["evaluation.enabled=false"]))
        result, out = self.plot(run.dir)
        self.assertIn("run: no evaluations: without test loss and accuracy",
                      result.stderr)
        self.assertIn("Training loss", " ".join(words(out / "time.svg")))

    def test_what_is_no_run_is_refused(self):
        empty = harness.scratch()
        result, out = self.plot(self.sync.dir, empty, code=2)
        self.assertIn(f"{empty}: is no run's folder", result.stderr)
        self.assertFalse(out.exists())
        result, _ = self.plot(empty / "none", code=2)
        self.assertIn(f"{empty}/none: is no folder", result.stderr)
        result, _ = self.plot(self.sync.dir, self.sync.dir, code=2)
        self.assertIn("two runs are called", result.stderr)

    def test_without_gnuplot_it_says_what_to_install_and_keeps_the_data(self):
        result, out = self.plot(self.sync.dir, "--gnuplot=/none/gnuplot",
                                code=1)
        self.assertIn("there is no /none/gnuplot", result.stderr)
        self.assertIn("apt-get install gnuplot-nox", result.stderr)
        self.assertEqual(sorted(p.name for p in out.iterdir()),
                         [f"{p}.gnuplot" for p in PICTURES])
        # The command that it suggests for later works.
        subprocess.run(["gnuplot", "time.gnuplot"], cwd=out, check=True,
                       timeout=harness.TIMEOUT_S)
        self.assertEqual(points(out / "time.svg"),
                         self.evaluations(self.sync.dir) + 1)

    def test_a_picture_can_be_edited_and_drawn_again(self):
        _, out = self.plot(self.simulated)
        path = out / "staleness.gnuplot"
        script = path.read_text().split("END\n")[-1]
        # More runs than colours, and more bins than their numbers have room.
        legend = ", ".join(f"'run {r}'" for r in range(1, 10))
        shares = "".join(f"{b} {100 / 23}\n" for b in range(23))
        path.write_text(
            f"array legend[9] = [{legend}]\nbin_width = 4\nlast_is_open = 1\n"
            "shares = '1 2 3 4 5 6 7 8 9'\n$shares << END\n" +
            "\n\n".join([shares] * 9) + "END\n" + script)
        subprocess.run(["gnuplot", path.name], cwd=out, check=True,
                       timeout=harness.TIMEOUT_S)
        text = words(out / "staleness.svg")
        numbers = [f"{b}–{b + 3}" for b in range(0, 88, 8)] + ["≥ 88"]
        self.assertEqual([w for w in text if w in numbers or "–" in w],
                         numbers)
        # The first eight runs are told apart by colour; the ninth is hatched.
        svg = (out / "staleness.svg").read_text()
        self.assertEqual(svg.count("<pattern"), 2)  # And its legend.

    def test_the_documents_commands_make_its_pictures(self):
        text, _ = (harness.ROOT / "docs/plots.md").read_text().split("\n![", 1)
        folder = harness.scratch()
        (folder / "configs").symlink_to(harness.ROOT / "configs")
        commands = re.findall(r"^    \./sluice (.*)$", text, re.MULTILINE)
        self.assertEqual(len(commands), 3)
        for command in commands:
            result = subprocess.run(
                [harness.TOOL, *shlex.split(command)], cwd=folder,
                capture_output=True, text=True, timeout=harness.TIMEOUT_S)
            self.assertEqual(result.returncode, 0, result.stderr)
        # The simulator always gives the same run, so the document's picture
        # must be the one that its commands make.
        self.assertEqual(
            words(folder / "plots/timeline.svg"),
            words(harness.ROOT / "docs/timeline.svg"))

    def test_what_gnuplot_complains_of_is_shown(self):
        complaint = harness.scratch() / "gnuplot"
        complaint.write_text("#!/bin/sh\necho no pens today; exit 3\n")
        complaint.chmod(0o755)
        result, _ = self.plot(self.sync.dir, f"--gnuplot={complaint}", code=1)
        self.assertIn("exit status 3", result.stderr)
        self.assertIn("no pens today", result.stderr)


class PolicyFigureTest(unittest.TestCase):

    def test_the_document_s_figure_is_drawn_by_its_command(self):
        out = harness.scratch()
        subprocess.run(
            [harness.ROOT / "docs/make_policy_figure.py", "--epochs=0.02",
             "--set=evaluation.every_epochs=0", f"--out={out}",
             f"--tool={harness.TOOL}"],
            check=True, timeout=harness.TIMEOUT_S)
        for name in ["policies_time.svg", "policies_version.svg"]:
            # Which runs there are, and their colours.
            labels = [w for w in words(harness.ROOT / "docs" / name)
                      if "SYNC" in w]
            self.assertEqual(len(labels), 7)
            self.assertEqual([w for w in words(out / name) if "SYNC" in w],
                             labels)


if __name__ == "__main__":
    harness.main()
