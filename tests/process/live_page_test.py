#!/usr/bin/python3 -B
"""What a lead shows while its run goes on, and `sluice ui` of a run's folder: to
Prometheus, to probes and, in the suite `browser`, to Chromium."""

import json
import re
import shutil
import signal
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import cluster
import harness

# Goes on for as long as a test looks at it.
ENDLESS = ("stop.epochs=100000", "delays.compute.constant.ms=10",
           "checkpoint.every_s=1")
RULES = harness.ROOT / "deploy/prometheus/sluice.rules.yml"
DEMO = harness.ROOT / "configs/fashion_mnist_lenet.textproto"
DASHBOARD = harness.ROOT / "deploy/grafana/sluice.json"


class ShownRun(cluster.Training):
    """A run whose lead has an HTTP port."""

    def __init__(self, *overrides, job=None):
        self.port = harness.reserve_port()
        super().__init__(job or harness.write_job(harness.LINEAR_JOB),
                         f"--http=127.0.0.1:{self.port}",
                         *harness.sets([*ENDLESS, *overrides]))

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    def get(self, path):
        """The text of a page, or None while nobody answers."""
        try:
            with urllib.request.urlopen(self.url(path), timeout=30) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, ConnectionError):
            return None

    def state(self):
        return json.loads(self.get("/api/state") or "{}").get("status")

    def await_state(self, holds, what):
        def look():
            state = self.state()
            return state if state and holds(state) else None
        return harness.wait_until(look, what, self.process)

    def metrics(self):
        """Name with labels -> value, of all that Prometheus would read."""
        return {name: float(value) for name, value in
                re.findall(r"^(sluice_\S+(?:\{.*\})?) (\S+)$",
                           self.get("/metrics") or "", re.MULTILINE)}


class Ui:
    """`sluice ui` of a run's folder; ends with the `with`."""

    def __init__(self, run_dir, *flags):
        self.process = subprocess.Popen(
            [harness.TOOL, "ui", str(run_dir), *flags], stdout=subprocess.PIPE,
            text=True)
        printed = self.process.stdout.readline()
        self.url = re.search(r"http://\S+/#\w+", printed).group()
        self.token = self.url.rsplit("#", 1)[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(harness.TIMEOUT_S)
        self.process.stdout.close()

    def ask(self, path, method="GET", token=None, host=None):
        """Status code and text."""
        request = urllib.request.Request(
            self.url.split("#", maxsplit=1)[0] + path, method=method)
        request.add_header("X-Sluice-Token",
                           self.token if token is None else token)
        if host:
            request.add_header("Host", host)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def state(self):
        return json.loads(self.ask("api/state")[1])


class UiTest(unittest.TestCase):

    def test_shows_a_run_stops_it_and_shows_what_it_came_to(self):
        with ShownRun() as run:
            run.await_state(lambda s: s["checkpoints"]["newest_version"],
                            "a checkpoint")
            with Ui(run.dir) as ui:
                self.assertEqual(ui.state()["status"]["phase"], "running")
                self.assertEqual(ui.ask("api/stop", "POST", token="")[0], 403)
                self.assertEqual(ui.ask("api/stop", "POST", token="0" * 32)[0],
                                 403)
                self.assertEqual(
                    ui.ask("api/stop", "POST", host="elsewhere.example")[0], 421)
                self.assertEqual(ui.state()["status"]["phase"], "running")
                self.assertEqual(ui.ask("api/checkpoint", "POST", token="")[0],
                                 403)
                self.check_checkpoint(ui)
                self.assertEqual(ui.ask("api/stop", "POST"),
                                 (200, "the run ends\n"))
                run.process.wait(harness.TIMEOUT_S)
                self.check_end(run.dir, ui.state())
                for action in "api/stop", "api/checkpoint":
                    self.assertEqual(
                        ui.ask(action, "POST"),
                        (503, "the run is over: asked for on its page\n"))

    def check_checkpoint(self, ui):
        def asked():
            # The job writes some of its own, and one at a time is written.
            status, said = ui.ask("api/checkpoint", "POST")
            return status == 200 and said
        said = harness.wait_until(asked, "a checkpoint that was asked for")
        version = int(re.fullmatch(r"version (\d+) will be written\n",
                                   said).group(1))
        harness.wait_until(
            lambda: (ui.state()["status"]["checkpoints"]["newest_version"] or
                     0) >= version, f"version {version} to be written")

    def check_end(self, run_dir, state):
        summary = json.loads((run_dir / "summary.json").read_text())
        goodput = json.loads(
            harness.tool("goodput", run_dir, "--json").stdout)
        status = state["status"]
        self.assertEqual(status["phase"], "finished")
        self.assertEqual(status["message"], "asked for on its page")
        for name in ("version", "gradients", "seconds", "test_loss"):
            with self.subTest(name=name):
                self.assertEqual(status[name], summary[name])
        self.assertEqual(status["checkpoints"]["newest_version"],
                         summary["version"])
        self.assertEqual(len(status["worker"]), 2)
        self.assertAlmostEqual(state["time"]["goodput"], goodput["goodput"])
        self.assertEqual(state["time"]["behind_bytes"], 0)
        for worker in state["time"]["worker"]:
            self.assertIn(worker["tasks"][-1][2], ("applied", "cancelled"))
        self.assertEqual(state["points"][-1]["version"], summary["version"])

    def test_a_run_that_died_is_shown_as_far_as_its_files_go(self):
        with ShownRun() as run:
            run.await_state(lambda s: s["version"] > 20, "updates")
            run.kill(run.process.pid, *run.pids().values())
            run.process.wait(harness.TIMEOUT_S)
            with Ui(run.dir) as ui:
                state = ui.state()
                self.assertIsNone(state["status"])
                self.assertIn("there is no summary.json", state["error"])
                self.assertGreater(state["time"]["seconds"]["applied"], 0)

    def test_a_run_that_failed_says_why(self):
        folder = harness.scratch()
        (folder / "addresses").write_text(
            f"coordinator 127.0.0.1:{harness.reserve_port()}\n")
        (folder / "failure.txt").write_text(
            "the run failed: worker 0 died\nlogs: there\n")
        (folder / "metrics.jsonl").write_text(
            '{"seconds": 2, "version": 7, "loss": 0.5}\n')
        with Ui(folder) as ui:
            status = ui.state()["status"]
            self.assertEqual(
                [status[name] for name in
                 ("phase", "message", "version", "seconds", "loss")],
                ["failed", "worker 0 died", 7, 2, 0.5])
            self.assertEqual(ui.ask("api/stop", "POST"),
                             (503, "the run is over: worker 0 died\n"))
            (folder / "summary.json").write_text('{"version": 7}')
            self.assertIn("summary.json: is damaged: seconds is missing",
                          ui.state()["error"])

    def test_answers_at_the_address_that_it_prints(self):
        begun = harness.scratch()
        (begun / "addresses").touch()
        for address in "127.0.0.5", "[0:0:0:0:0:0:0:1]":
            with self.subTest(address=address):
                with Ui(begun, f"--http={address}:0") as ui:
                    self.assertIn(f"//{address}:", ui.url)
                    self.assertEqual(ui.ask("api/state")[0], 200)

    def test_bad_flags_are_named(self):
        begun = harness.scratch()
        (begun / "addresses").touch()
        for arguments, named in (
                (["no/such"], "no/such: is not the folder of a run"),
                ([str(harness.scratch())], ": is not the folder of a run"),
                ([str(begun), "--http=0.0.0.0:0"], "only this machine reaches"),
                ([str(begun), "--http=8080"], "--http: ")):
            with self.subTest(arguments=arguments):
                result = harness.tool("ui", *arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(named, result.stderr)


class LivePageTest(unittest.TestCase):

    def test_counters_equal_the_ledger_after_a_recovery(self):
        with ShownRun() as run:
            run.await_state(lambda s: s["checkpoints"]["newest_version"],
                            "a checkpoint")
            self.assertEqual(run.get("/readyz"), "ready\n")
            run.signal("ps_server-0", signal.SIGKILL)
            run.await_state(lambda s: s["generation"] == 2 and
                            s["version"] > s["recovery"]["restored_version"],
                            "the second generation")
            # What follows compares two looks at a run that stands still.
            for name in ("worker-0", "worker-1"):
                run.signal(name, signal.SIGSTOP)
            seen = []
            def still():
                seen.append(run.metrics().get("sluice_version"))
                return len(seen) > 20 and len(set(seen[-20:])) == 1
            harness.wait_until(still, "the run to stand still", run.process)
            metrics = run.metrics()
            balance = harness.tool("ledger", run.dir, "--json")
            self.assertEqual(balance.returncode, 0, balance.stderr)
            ledger = json.loads(balance.stdout)
            def counted(outcome):
                return metrics[f'sluice_gradients_total{{outcome="{outcome}"}}']
            for outcome in ("applied", "cancelled", "dropped", "rejected"):
                with self.subTest(outcome=outcome):
                    self.assertEqual(counted(outcome),
                                     ledger["gradients"][outcome])
            # To the ledger a task that has not ended is lost, of which each of
            # the two workers may have one.
            under_way = ledger["gradients"]["lost"] - counted("lost")
            self.assertIn(under_way, (0, 1, 2))
            self.assertEqual(metrics["sluice_version"], ledger["version"])

    @harness.suite("prometheus")
    def test_promtool_reads_the_metrics(self):
        with ShownRun() as run:
            run.await_state(lambda s: s["version"] > 20, "updates")
            checked = subprocess.run(
                ["promtool", "check", "metrics"], input=run.get("/metrics"),
                text=True, capture_output=True)
            self.assertNotIn("error", checked.stderr.lower())

    def test_rules_and_dashboard_ask_for_what_there_is(self):
        # Only with TLS, and only where the data have labels.
        elsewhere = {"sluice_certificate_expires_seconds",
                     "sluice_test_accuracy_ratio"}
        with ShownRun() as run:
            for file in (RULES, DASHBOARD):
                named = set(re.findall(r"\bsluice_\w+", file.read_text()))
                self.assertGreater(len(named), 5)
                for name in named - elsewhere:
                    # Processes say what they count with their heartbeats.
                    harness.wait_until(
                        lambda name=name: re.search(
                            rf"^{name}[ {{]", run.get("/metrics") or "", re.M),
                        f"{name}, which {file.name} names", run.process)

    @harness.suite("prometheus")
    def test_the_rules_hold_what_their_own_test_says(self):
        checked = subprocess.run(
            ["promtool", "test", "rules",
             RULES.with_name("sluice.rules_test.yml")],
            capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_bad_addresses_are_named(self):
        job = harness.write_job(harness.LINEAR_JOB)
        for address in ("8080", "127.0.0.1:0", "nowhere"):
            with self.subTest(address=address):
                result = harness.tool("train", job, f"--http={address}")
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(f"--http: expected host:port", result.stderr)
                self.assertIn(address, result.stderr)


@harness.suite("browser")
class BrowserTest(unittest.TestCase):

    def setUp(self):
        from selenium import webdriver
        from selenium.common.exceptions import SessionNotCreatedException
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu",
                         "--disable-dev-shm-usage",
                         f"--user-data-dir={harness.scratch() / 'profile'}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs",
                               {"browser": "ALL", "performance": "ALL"})

        def start():
            return webdriver.Chrome(
                options=options, service=Service(shutil.which("chromedriver")))
        try:
            self.browser = start()
        except SessionNotCreatedException:
            # On a busy machine its driver gives the browser up too early.
            self.browser = start()
        self.addCleanup(self.browser.quit)

    def text(self, name):
        return self.browser.find_element("id", name).text

    def await_text(self, name, pattern, run):
        """What of the element's text matches, once something does."""
        return harness.wait_until(
            lambda: re.search(pattern, self.text(name)),
            f"{name} to match {pattern}", run.process).group()

    def test_the_page_follows_a_run_through_a_recovery(self):
        with ShownRun() as run:
            run.await_state(lambda s: s["checkpoints"]["newest_version"],
                            "a checkpoint")
            self.browser.get(run.url("/"))
            self.assertEqual(self.await_text("name", "linear", run), "linear")
            self.await_text("phase", "^running$", run)
            self.await_text("workers", "0 computing|0 waiting", run)
            self.browser.execute_script("window.loaded_once = true")

            # Under SYNC everybody waits for a worker that does not go on. It
            # is named after a second, and the page asks once a second.
            run.signal("worker-1", signal.SIGSTOP)
            stopped = time.monotonic()
            waited = self.await_text("banner", "Waiting for .*worker 1.* since .*",
                                     run)
            print(f"after {time.monotonic() - stopped:.2f} s: {waited}")
            run.signal("worker-1", signal.SIGCONT)
            self.await_text("banner", "^$", run)

            run.signal("ps_server-0", signal.SIGKILL)
            self.await_text("run", "generation 2", run)
            self.await_text("durable", "Generation 2 goes on from version", run)
            self.await_text("events", "Generation 2 begins", run)
            self.assertTrue(self.browser.execute_script(
                "return window.loaded_once && points.length > 0"))
            self.check_what_was_fetched(run)

    def rows(self, table):
        """The texts of the rows, in one look: each answer makes them anew."""
        return self.browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])]"
            ".map((row) => row.innerText)", f"#{table} tbody tr")

    def test_the_page_shows_the_demo_while_it_trains(self):
        with ShownRun("evaluation.every_epochs=0.05", job=DEMO) as run:
            run.await_state(lambda s: s["version"] > 0, "the first update")
            self.browser.get(run.url("/"))
            self.await_text("name", "^fashion_mnist_lenet$", run)
            self.await_text("policy", "^K_SYNC, K=3$", run)
            self.await_text("phase", "^running$", run)
            self.await_text("tiles", r"\d+\.\d\d%\s+test accuracy", run)
            seen = int(self.await_text("tiles", r"^\d+", run))
            harness.wait_until(
                lambda: int(re.match(r"\d+", self.text("tiles")).group()) > seen,
                "the page to show a later version", run.process)
            self.await_text("tiles", r"[1-9]\d*\s+gradients cancelled", run)
            self.await_text("goodput", r"goodput \d+\.\d%", run)
            self.assertTrue(self.browser.find_element(
                "id", "accuracy-figure").is_displayed())
            self.assertEqual(len(self.rows("workers")), 4)
            self.assertEqual(len(self.rows("shards")), 2)
            for row in self.rows("shards"):
                self.assertIn("serving", row)
            self.assertEqual(len(self.browser.find_elements(
                "css selector", "#workers td.wide svg")), 4)
            self.check_what_was_fetched(run)

            # When it is over, what was shown stays.
            run.process.send_signal(signal.SIGINT)
            run.process.wait(harness.TIMEOUT_S)
            harness.wait_until(
                lambda: "No answer from the lead" in self.text("banner"),
                "the page to say that nobody answers")
            self.assertEqual(len(self.rows("workers")), 4)
            self.assertIn("test accuracy", self.text("tiles"))

    def test_the_buttons_store_a_version_and_end_the_run_whose_page_stays(self):
        # None by itself: while one is written, no other can be asked for.
        with ShownRun("checkpoint.every_s=100000") as run:
            run.await_state(lambda s: s["version"] > 20, "updates")
            with Ui(run.dir) as ui:
                self.browser.get(ui.url)
                self.await_text("goodput", r"goodput \d+\.\d%", run)
                self.assertEqual(len(self.browser.find_elements(
                    "css selector", "#workers td.wide svg")), 2)
                self.browser.find_element("id", "checkpoint").click()
                self.await_text("events", "A checkpoint was asked for", ui)
                self.browser.find_element("id", "stop").click()
                self.browser.switch_to.alert.accept()
                run.process.wait(harness.TIMEOUT_S)
                self.await_text("phase", "^finished$", ui)
                self.await_text("left", "asked for on its page", ui)
                self.assertFalse(
                    self.browser.find_element("id", "stop").is_displayed())
                self.assertEqual(self.browser.get_log("browser"), [])

    def test_the_pictures_of_the_documents_can_be_taken(self):
        out = harness.scratch()
        subprocess.run(
            [harness.ROOT / "docs/make_page_pictures.py",
             f"--tool={harness.TOOL}", f"--out={out}"],
            check=True, timeout=harness.TIMEOUT_S)
        for picture in (harness.ROOT / "docs").glob("page_*.png"):
            with self.subTest(picture=picture.name):
                taken = (out / picture.name).read_bytes()
                self.assertEqual(taken[:8], b"\x89PNG\r\n\x1a\n")
                # Other fonts need fewer bytes; an empty page a twentieth.
                self.assertGreater(len(taken), picture.stat().st_size / 4)

    def check_what_was_fetched(self, run):
        urls = [json.loads(entry["message"])["message"]["params"]["request"]["url"]
                for entry in self.browser.get_log("performance")
                if '"Network.requestWillBeSent"' in entry["message"]]
        self.assertGreater(len(urls), 4)
        self.assertEqual([url for url in urls
                          if not url.startswith((run.url("/"), "data:",
                                                 # The browser's own first tab.
                                                 "chrome:"))], [])
        # While the lead is away, questions fail; nothing else may.
        self.assertEqual([entry["message"]
                          for entry in self.browser.get_log("browser")
                          if "/api/state" not in entry["message"]], [])


if __name__ == "__main__":
    harness.main()
