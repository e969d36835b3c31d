#!/usr/bin/python3 -B
"""The event file of `sluice export-tensorboard` holds what metrics.jsonl does,
while the run goes on and after it."""

import json
import os
import signal
import struct
import subprocess
import threading
import unittest

import cluster
import harness
import ledger

FILE = "tensorboard/events.out.tfevents.0.sluice"
LINE = '{"seconds": 1, "version": 1, "loss": 2}\n'


def crc32c(data):
    """Of RFC 3720, with a table."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events_of(path):
    """The whole records: of each, its fields by number."""
    data, events, at = path.read_bytes(), [], 0
    while at + 12 <= len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked(data[at:at + 8])
        record = data[at + 12:at + 12 + length]
        if at + 16 + length > len(data):
            break
        assert struct.unpack_from("<I", data, at + 12 + length) == (
            masked(record),)
        events.append(dict(ledger.fields(record)))
        at += 16 + length
    return events


def scalars_of(path):
    """{tag: [(step, value)]}."""
    scalars = {}
    for event in events_of(path):
        for number, value in ledger.fields(event.get(5, b"")):
            fields = dict(ledger.fields(value))
            if number == 1 and 5 not in fields:
                tag = fields[1].decode()
                [number] = struct.unpack("<f", fields.get(2, bytes(4)))
                scalars.setdefault(tag, []).append((event.get(2, 0), number))
    return scalars


def as_float(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


class ExportTensorboardTest(unittest.TestCase):

    def check(self, folder):
        """That the file holds the lines of the run's metrics."""
        lines = [json.loads(line) for line in
                 (folder / "metrics.jsonl").read_text().splitlines()]
        scalars = scalars_of(folder / FILE)
        for name in "loss", "learning_rate", "samples_per_second":
            self.assertEqual(scalars[name], [
                (line["version"], as_float(line[name]))
                for line in lines if line[name] is not None])
        self.assertEqual(
            scalars["gradients/applied"],
            [(line["version"], line["gradients"]["applied"])
             for line in lines])
        self.assertEqual(
            scalars.get("test_loss", []),
            [(line["test_version"], as_float(line["test_loss"]))
             for line in lines if "test_loss" in line])
        return lines, scalars

    def test_a_run_that_is_over(self):
        run = harness.train(harness.write_job(harness.LINEAR_JOB), *harness.sets(
            ["sync.policy=ASYNC", "output.metrics_every_s=0.05",
             "delays.compute.constant.ms=5"]))
        for _ in range(2):  # The second call writes the same.
            result = harness.tool("export-tensorboard", run.dir)
            self.assertEqual(result.returncode, 0, result.stderr)
            lines, scalars = self.check(run.dir)
            self.assertIn(f"{len(lines)} lines in", result.stdout)
        self.assertIn("test_loss", scalars)

    @harness.suite("tensorboard")
    def test_tensorboard_reads_what_is_written(self):
        harness.find_packages_of("tensorboard")
        folder = harness.train(harness.write_job(harness.LINEAR_JOB)).dir
        result = harness.tool("export-tensorboard", folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines, scalars = self.check(folder)
        # pylint: disable-next=import-outside-toplevel
        from tensorboard.backend.event_processing import event_accumulator
        read = event_accumulator.EventAccumulator(
            str(folder / "tensorboard"), size_guidance={
                event_accumulator.SCALARS: 0, event_accumulator.HISTOGRAMS: 0})
        read.Reload()
        self.assertEqual(set(read.Tags()["scalars"]), set(scalars))
        for tag, values in scalars.items():
            self.assertEqual([(e.step, e.value) for e in read.Scalars(tag)],
                             values)
        seen = sum(e.histogram_value.num for e in read.Histograms("staleness"))
        self.assertEqual(seen, lines[-1]["gradients"]["applied"])

    def test_a_run_that_goes_on(self):
        folder = harness.scratch()
        first, second = [
            json.dumps({"seconds": n, "version": n, "loss": 0.5 / n,
                        "learning_rate": 0.1, "samples_per_second": 5,
                        "gradients": {"applied": n}}) + "\n"
            for n in (1, 2)]
        metrics = folder / "metrics.jsonl"
        metrics.write_text(first + second[:10])
        with subprocess.Popen(
                [harness.TOOL, "export-tensorboard", folder, "--follow"],
                stdout=subprocess.PIPE, text=True) as following:
            harness.wait_until(
                lambda: (folder / FILE).exists() and
                len(events_of(folder / FILE)) == 2, "the first line's event")
            with open(metrics, "a", encoding="utf-8") as out:
                out.write(second[10:])
            (folder / "summary.json").write_text("{}")
            output, _ = following.communicate(timeout=harness.TIMEOUT_S)
        self.assertEqual(following.returncode, 0)
        self.assertIn("2 lines in", output)
        self.check(folder)

    def test_a_run_that_was_resumed_is_not_over_by_its_former_summary(self):
        with cluster.Training(
                harness.write_job(harness.LINEAR_JOB), *harness.sets(
                    ["stop.epochs=100", "output.metrics_every_s=0.2",
                     "delays.compute.constant.ms=2"])) as run:
            run.await_version(5)
            (run.dir / "summary.json").write_text("{}")
            with subprocess.Popen(
                    [harness.TOOL, "export-tensorboard", run.dir, "--follow"],
                    stdout=subprocess.PIPE, text=True) as following:
                output = run.end()
                self.assertEqual(run.process.returncode, 0, output)
                following.communicate(timeout=harness.TIMEOUT_S)
            self.assertEqual(following.returncode, 0)
            self.check(run.dir)

    def test_times_are_those_at_which_the_lines_were_written(self):
        folder = harness.scratch()
        metrics = folder / "metrics.jsonl"
        metrics.write_text(LINE + LINE.replace('"seconds": 1', '"seconds": 11'))
        os.utime(metrics, (5000, 5000))
        (folder / "job.textproto").touch()  # By a later generation.
        self.assertEqual(
            harness.tool("export-tensorboard", folder).returncode, 0)
        times = [struct.unpack("<d", event[1])[0]
                 for event in events_of(folder / FILE) if 5 in event]
        self.assertEqual(times, [4990, 5000])

    def test_a_run_that_failed_without_a_summary_is_over(self):
        folder = harness.scratch()
        (folder / "metrics.jsonl").write_text(LINE)
        (folder / "failure.txt").write_text("the run failed: worker 0 died\n")
        result = harness.tool("export-tensorboard", folder, "--follow")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 lines in", result.stdout)

    def test_a_coordinator_that_is_gone_for_good_is_not_waited_for(self):
        folder = harness.scratch()
        (folder / "metrics.jsonl").write_text(LINE)
        lead = f"127.0.0.1:{harness.reserve_port()}"
        (folder / "addresses").write_text(f"coordinator {lead}\n")
        result = harness.tool("export-tensorboard", folder, "--follow")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, f"{folder}: not followed any longer: "
                         "for 20s there was no new line, and the coordinator "
                         "does not answer: ")
        self.assertIn("1 lines in", result.stdout)
        self.assertEqual(scalars_of(folder / FILE), {"loss": [(1, 2)]})

    def test_a_signal_ends_it_while_it_reads(self):
        for follow in [], ["--follow"]:
            folder = harness.scratch()
            os.mkfifo(folder / "metrics.jsonl")
            lines = os.open(folder / "metrics.jsonl", os.O_RDWR)
            with subprocess.Popen(
                    [harness.TOOL, "export-tensorboard", folder, *follow],
                    stdout=subprocess.PIPE, text=True) as reading:
                ended = threading.Event()

                def write(ended=ended, lines=lines):
                    os.set_blocking(lines, False)
                    while not ended.wait(0.001):
                        try:
                            os.write(lines, LINE.encode() * 100)
                        except BlockingIOError:
                            pass
                writer = threading.Thread(target=write)
                writer.start()
                harness.wait_until((folder / FILE).exists, "the file")
                reading.send_signal(signal.SIGINT)
                try:
                    reading.wait(harness.TIMEOUT_S)
                finally:
                    reading.kill()
                    ended.set()
                    writer.join()
                    os.close(lines)
            self.assertEqual(reading.returncode, 0 if follow else -signal.SIGINT)

    def test_what_is_no_run_is_named(self):
        folder = harness.scratch()
        result = harness.tool("export-tensorboard", folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("metrics.jsonl: cannot be read, expected the folder of a "
                      "run", result.stderr)
        self.assertEqual(list(folder.iterdir()), [])

    def test_metrics_that_cannot_be_read_are_no_end(self):
        folder = harness.scratch()
        (folder / "metrics.jsonl").mkdir()  # Opened, but a read fails.
        result = harness.tool("export-tensorboard", folder)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertEqual(result.stderr,
                         f"{folder}/metrics.jsonl: cannot be read\n")

    def test_a_line_that_is_none_is_passed_over_and_named(self):
        folder = harness.scratch()
        metrics = folder / "metrics.jsonl"
        metrics.write_text('{"seconds": 1, "version": 1, "loss": 2}\nnonsense\n'
                           '{"seconds": 2, "version": 2, "loss": 3}\n')
        result = harness.tool("export-tensorboard", folder, "--json")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(
            result.stderr, f"{metrics}:2: passed over: expected a JSON object "
            "with numbers seconds and version, got nonsense\n")
        said = json.loads(result.stdout)
        self.assertEqual((said["lines"], said["passed_over"]), (2, 1))
        self.assertEqual(scalars_of(folder / FILE), {"loss": [(1, 2), (2, 3)]})


if __name__ == "__main__":
    harness.main()
