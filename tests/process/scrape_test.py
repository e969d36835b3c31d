#!/usr/bin/python3 -B
"""What Prometheus and probes get of daemons that were started by hand: of the
lead also when its run is over, of the others about themselves."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import unittest
import urllib.error
import urllib.request

import by_hand
import cluster
import harness

OUTCOMES = ("applied", "cancelled", "dropped", "rejected", "lost")
# Leaves time to disturb a run before it ends.
SLOW = "delays.compute.constant.ms=10"


def get(port, path):
    """(code, text) of a page; code 0 while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}",
                                    timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return 0, ""


def metrics(port):
    """Name with labels -> value, of all that Prometheus would read."""
    return {name: float(value) for name, value in re.findall(
        r"^(sluice_\S+(?:\{.*\})?) (\S+)$", get(port, "/metrics")[1],
        re.MULTILINE)}


class Shown(by_hand.ByHand):
    """Every daemon has an HTTP port, and the lead lingers on its own."""

    def __init__(self, sets=(), linger_s=600, start=None):
        self.ports = {}
        def flags(name):
            self.ports[name] = harness.reserve_port()
            own = [f"--http=127.0.0.1:{self.ports[name]}"]
            return own if name != "shard 0" else [
                *own, f"--http-linger={linger_s}", "--resume"]
        super().__init__(run_dir=True, sets=[SLOW, *sets], start=start,
                         job="checkpoint { every_updates: 20 }", flags=flags)
        self.run_dir = self.dir / "run"

    def metrics(self, name="shard 0"):
        return metrics(self.ports[name])

    def ready(self, name="shard 0"):
        return get(self.ports[name], "/readyz")

    def await_lingering(self):
        harness.wait_until(lambda: "event=lingering" in self.log("shard 0"),
                           "the lead to linger", self.processes["shard 0"])

    def ledger(self):
        balance = harness.tool("ledger", self.run_dir, "--json")
        assert balance.returncode == 0, balance.stdout + balance.stderr
        return json.loads(balance.stdout)


class EndOfARunTest(unittest.TestCase):

    @contextlib.contextmanager
    def disturbed_run(self):
        """A run that went through kill -9 of a worker and of the lead, and is
        over; its lead lingers."""
        with Shown(["stop.updates=400"]) as run:
            run.await_training()
            run.kill("worker 1")
            run.start("worker 1")
            run.await_status(
                lambda s: s["worker"][1]["incarnation"] == 2
                and s["worker"][1]["gradients"]["applied"] > 0
                and s["checkpoints"]["newest_version"]
                and s["version"] > s["checkpoints"]["newest_version"],
                "worker 1 to work again, and an update after a checkpoint")
            run.kill("shard 0")
            run.start("shard 0")
            run.await_training(generation=2)
            for name in ("worker 0", "worker 1", "shard 1", "evaluator"):
                self.assertEqual(
                    run.processes[name].wait(harness.TIMEOUT_S), 0, name)
            run.await_lingering()
            yield run

    def test_the_last_scrape_equals_the_ledger(self):
        with self.disturbed_run() as run:
            seen, ledger = run.metrics(), run.ledger()
            for outcome in OUTCOMES:
                with self.subTest(outcome=outcome):
                    self.assertEqual(
                        seen[f'sluice_gradients_total{{outcome="{outcome}"}}'],
                        ledger["gradients"][outcome])
            self.assertGreater(ledger["gradients"]["lost"], 0)
            summary = json.loads((run.run_dir / "summary.json").read_text())
            self.assertEqual(seen["sluice_samples_total"], summary["samples"])
            self.assertEqual(seen["sluice_version"], 400)
            self.assertEqual(seen["sluice_generation"], 2)
            self.assertEqual(seen["sluice_progress_ratio"], 1)
            # Times are of the second generation, which had fewer tasks.
            for phase in ("pull", "compute", "push"):
                count = seen[f'sluice_task_seconds_count{{phase="{phase}"}}']
                self.assertGreater(count, 0)
                self.assertLess(count, ledger["gradients"]["applied"])
            self.assertGreaterEqual(
                seen['sluice_task_seconds_sum{phase="compute"}'], 0.01 * count)
            self.assertEqual(run.ready(), (200, "finished\n"))
            state = json.loads(get(run.ports["shard 0"], "/api/state")[1])
            self.assertEqual(state["status"]["phase"], "finished")
            self.assertEqual(state["time"]["goodput"], summary["goodput"])
            # Nobody waits for the lead's other port, which is closed.
            self.assertEqual(harness.tool("status", run.lead).returncode, 1)

            lead = run.processes["shard 0"]
            lead.terminate()
            self.assertEqual(lead.wait(harness.TIMEOUT_S), 0)

    def test_it_ends_by_itself(self):
        with Shown(["stop.updates=20"], linger_s=1) as run:
            self.assertEqual(
                run.processes["shard 0"].wait(harness.TIMEOUT_S), 0)
            self.assertIn("event=lingering seconds=1", run.log("shard 0"))

    def test_an_end_that_cannot_be_written_is_not_shown(self):
        with Shown(["stop.updates=60"]) as run:
            run.await_training()
            (run.run_dir / "summary.json").mkdir()  # No file can replace it.
            lead = run.processes["shard 0"]
            self.assertEqual(lead.wait(harness.TIMEOUT_S), 1)
            self.assertNotIn("event=lingering", run.log("shard 0"))

    def test_who_is_told_to_end_does_not_linger(self):
        with Shown() as run:
            run.await_training()
            lead = run.processes["shard 0"]
            lead.send_signal(signal.SIGTERM)
            self.assertEqual(lead.wait(harness.TIMEOUT_S), 0)
            summary = json.loads((run.run_dir / "summary.json").read_text())
            self.assertEqual(summary["reason"], "stopped by SIGTERM")

    @harness.suite("prometheus")
    def test_prometheus_has_the_last_counters(self):
        with self.disturbed_run() as run:
            checked = subprocess.run(
                ["promtool", "check", "metrics"],
                input=get(run.ports["shard 0"], "/metrics")[1], text=True,
                capture_output=True)
            self.assertEqual(checked.returncode, 0, checked.stderr)
            folder, port = harness.scratch(), harness.reserve_port()
            config = folder / "prometheus.yml"
            config.write_text(
                "scrape_configs:\n"
                "  - job_name: sluice\n"
                "    scrape_interval: 1s\n"
                "    static_configs:\n"
                f"      - targets: [\"127.0.0.1:{run.ports['shard 0']}\"]\n")
            prometheus = subprocess.Popen(
                ["prometheus", f"--config.file={config}",
                 f"--storage.tsdb.path={folder / 'data'}",
                 f"--web.listen-address=127.0.0.1:{port}"],
                stderr=subprocess.DEVNULL)
            def counted():
                code, text = get(port, "/api/v1/query?query="
                                       "sluice_gradients_total")
                found = json.loads(text)["data"]["result"] if code == 200 else []
                return {one["metric"]["outcome"]: int(one["value"][1])
                        for one in found}
            try:
                found = harness.wait_until(counted, "Prometheus to scrape",
                                           prometheus)
                wanted = run.ledger()["gradients"]
                self.assertEqual(found, {o: wanted[o] for o in OUTCOMES})
            finally:
                prometheus.kill()
                prometheus.wait()


class ProcessTest(unittest.TestCase):

    def test_each_process_shows_itself(self):
        others = {"shard 1": ("shard", "1"), "worker 0": ("worker", "0"),
                  "worker 1": ("worker", "1"), "evaluator": ("evaluator", "0")}
        with Shown(start=list(others)) as run:
            for name in others:
                harness.wait_until(lambda name=name: run.ready(name)[0],
                                   f"{name} to answer", run.processes[name])
            self.assertEqual(run.ready("worker 0"),
                             (503, "worker 0 has not joined the run\n"))
            self.assertEqual(get(run.ports["worker 0"], "/healthz")[0], 200)
            self.assertEqual(get(run.ports["worker 0"], "/")[0], 404)
            run.start("shard 0")
            run.await_training()
            for name, (role, number) in others.items():
                with self.subTest(name=name):
                    self.assertEqual(run.ready(name), (200, "joined\n"))
                    self.assertEqual(
                        run.metrics(name)[
                            f'sluice_{role}_joined{{{role}="{number}"}}'], 1)
            self.check_names_and_values(run)

    def check_names_and_values(self, run):
        """A process shows what the lead shows of it, and sooner."""
        for name, role, number in (("shard 1", "shard", "1"),
                                   ("worker 0", "worker", "0")):
            own = f'{{{role}="{number}"}}'
            def counters(seen):
                return {key: value for key, value in seen.items()
                        if key.startswith(f"sluice_{role}_")
                        and key.endswith(f"_total{own}")}
            seen = counters(run.metrics(name))
            self.assertGreater(len(seen), 5)
            # Heartbeats carry them on.
            harness.wait_until(
                lambda: (lambda at_lead: seen.keys() == at_lead.keys() and all(
                    at_lead[key] >= seen[key] for key in seen))(
                        counters(run.metrics())),
                f"the lead to know what {name} showed",
                run.processes["shard 0"])

    @harness.suite("prometheus")
    def test_promtool_reads_what_each_shows(self):
        with Shown() as run:
            run.await_training()
            for name, port in run.ports.items():
                with self.subTest(name=name):
                    checked = subprocess.run(
                        ["promtool", "check", "metrics"],
                        input=get(port, "/metrics")[1], text=True,
                        capture_output=True)
                    self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_the_lead_of_train_lingers_too_until_a_signal(self):
        port = harness.reserve_port()
        with cluster.Training(
                harness.write_job(harness.LINEAR_JOB),
                f"--http=127.0.0.1:{port}", "--http-linger=600") as run:
            harness.wait_until(
                lambda: get(port, "/readyz") == (200, "finished\n"),
                "the end of the run", run.process)
            self.assertEqual(metrics(port)["sluice_progress_ratio"], 1)
            harness.wait_until(
                lambda: "event=lingering seconds=600" in
                (run.dir / "ps_server-0.log").read_text(),
                "the lead to linger", run.process)
            run.process.send_signal(signal.SIGINT)
            output, _ = run.process.communicate(timeout=harness.TIMEOUT_S)
        self.assertEqual(run.process.returncode, 0, output)
        self.assertIn(" updates in", output)

    def test_a_port_of_every_interface_is_said_as_browsers_open_it(self):
        port = harness.reserve_port()
        result = harness.train(harness.write_job(harness.LINEAR_JOB),
                               f"--http=:{port}").result
        self.assertIn(f"The run is shown at http://localhost:{port}/\n",
                      result.stdout)

    def test_a_port_that_is_taken_is_no_bad_flag(self):
        job = harness.write_job(harness.LINEAR_JOB)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for daemon in ([harness.PS_SERVER, "--shard=1",
                            "--listen=127.0.0.1:0"],
                           [harness.WORKER, "--worker=0"], [harness.EVALUATOR]):
                with self.subTest(daemon=daemon):
                    result = subprocess.run(
                        [*daemon, f"--job={job}", "--coordinator=127.0.0.1:1",
                         f"--http=127.0.0.1:{taken.getsockname()[1]}"],
                        capture_output=True, text=True,
                        timeout=harness.TIMEOUT_S, check=False)
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertIn("the port is taken", result.stderr)

    def test_bad_flags_are_named(self):
        job = harness.write_job(harness.LINEAR_JOB)
        shard = [harness.PS_SERVER, f"--job={job}", "--listen=127.0.0.1:0"]
        to = "--coordinator=127.0.0.1:1"
        for command, named in (
                ([*shard, "--shard=1", to, "--http=8080"], "--http: "),
                ([*shard, "--shard=0", "--http-linger=5"],
                 "--http-linger requires --http"),
                ([*shard, "--shard=0", "--http=127.0.0.1:0",
                  "--http-linger=-1"], "--http-linger"),
                ([*shard, "--shard=0", "--http=127.0.0.1:0",
                  "--http-linger=nan"], "--http-linger"),
                ([harness.TOOL, "train", job, "--http-linger=5"],
                 "--http-linger requires --http"),
                ([harness.TOOL, "train", job, "--http=127.0.0.1:1",
                  "--http-linger=1.5"], "--http-linger"),
                ([harness.WORKER, f"--job={job}", "--worker=0", to,
                  "--http=8080"], "--http: "),
                ([harness.EVALUATOR, f"--job={job}", to, "--http=8080"],
                 "--http: ")):
            with self.subTest(command=command):
                result = subprocess.run(command, capture_output=True, text=True,
                                        timeout=harness.TIMEOUT_S)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(named, result.stdout + result.stderr)


if __name__ == "__main__":
    harness.main()
