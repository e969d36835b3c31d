#!/usr/bin/python3 -B
"""The units of deploy/systemd. Without systemd: their commands train a job with
certificates. With it: it finds nothing wrong with them, and keeps them up."""

import json
import os
import pathlib
import shlex
import string
import subprocess
import unittest

import harness
from tls_run import certs
from user_manager import UserManager

UNITS = harness.ROOT / "deploy/systemd"
PROGRAMS = {"/usr/local/bin/ps_server": harness.PS_SERVER,
            "/usr/local/bin/worker": harness.WORKER,
            "/usr/local/bin/evaluator": harness.EVALUATOR}


def settings(file):
    """The lines NAME=VALUE of a unit or of an environment file."""
    return dict(line.split("=", 1) for line in file.read_text().splitlines()
                if "=" in line and not line.startswith("#"))


ENVIRONMENT = settings(UNITS / "sluice.env")


def command(unit, instance, environment):
    """What systemd would start."""
    line = settings(UNITS / unit)["ExecStart"].replace("%i", instance)
    program, *words = shlex.split(string.Template(line).substitute(environment))
    return [PROGRAMS[program], *words]


# Unit, instance, and whether it is on the lead's host.
STARTED = [("sluice-lead.service", "", True),
           ("sluice-shard@.service", "1", False),
           ("sluice-worker@.service", "0", False),
           ("sluice-worker@.service", "1", False),
           ("sluice-evaluator.service", "", False)]
NAMES = [unit.replace("@", f"@{instance}") for unit, instance, _ in STARTED]


def environments(folder, job):
    """What sluice.env says on the lead's host (True) and on the other one."""
    (folder / "run").mkdir()
    lead, other = harness.reserve_port(), harness.reserve_port()
    both = {**ENVIRONMENT, "SLUICE_JOB": harness.write_job(job),
            "SLUICE_RUN": folder / "run",
            "SLUICE_CERTS": certs(folder / "certs"),
            "SLUICE_LEAD": f"localhost:{lead}", "SLUICE_HOST": "localhost"}
    return {True: {**both, "SLUICE_PORT": lead},
            False: {**both, "SLUICE_PORT": other}}


def restored(status):
    """The version that its generation began with."""
    return (status["recovery"] or {}).get("restored_version", 0)


def as_installed(unit, environment):
    """A unit's text with what differs here: programs, paths, one user."""
    text = (UNITS / unit).read_text().replace("User=sluice\n", "")
    for installed, built in PROGRAMS.items():
        text = text.replace(installed, str(built))
    folder = pathlib.Path(environment["SLUICE_RUN"]).parent
    file = folder / f"{unit}.env"
    file.write_text("".join(f"{name}={value}\n"
                            for name, value in environment.items()))
    return text.replace("/etc/sluice/sluice.env", str(file)).replace(
        ENVIRONMENT["SLUICE_RUN"], str(environment["SLUICE_RUN"]))


class SystemdTest(unittest.TestCase):

    def test_the_commands_of_the_units_train_a_job(self):
        folder = harness.scratch()
        hosts = environments(folder, harness.LINEAR_JOB)
        harness.run_together(
            {name: command(unit, instance, hosts[of_lead])
             for name, (unit, instance, of_lead) in zip(NAMES, STARTED)},
            folder)
        summary = json.loads((folder / "run/summary.json").read_text())
        self.assertEqual(summary["failure"], "")
        self.assertGreater(summary["version"], 0)

    def test_every_unit_goes_on_after_75_and_a_signal_and_after_no_other(self):
        units = list(UNITS.glob("*.service"))
        self.assertEqual(len(units), 4)
        for unit in units:
            with self.subTest(unit=unit.name):
                wanted = settings(unit)
                self.assertEqual(wanted["Restart"], "on-failure")
                self.assertEqual(wanted["RestartPreventExitStatus"], "1 2 3")
                # SIGTERM is no failure, and after a reboot the run goes on.
                self.assertIn("--yield", command(unit.name, "1", ENVIRONMENT))
                self.assertEqual(wanted["RestartForceExitStatus"], "75")
                self.assertEqual(wanted["SuccessExitStatus"], "75")
                needs = wanted.get("RequiresMountsFor")
                self.assertEqual(
                    needs, None if "worker" in unit.name
                    else ENVIRONMENT["SLUICE_RUN"])

    @harness.suite("systemd")
    def test_systemd_reads_the_units(self):
        folder = harness.scratch()
        for unit in UNITS.glob("*.service"):
            # The programs are not where a cluster has them.
            text = unit.read_text()
            for installed, built in PROGRAMS.items():
                text = text.replace(installed, str(built))
            name = unit.name.replace("@", "@1")
            (folder / name).write_text(text)
        result = subprocess.run(
            ["systemd-analyze", "verify", *folder.glob("*.service")],
            capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    @harness.suite("systemd")
    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED: root makes cgroups")
    def test_systemd_keeps_a_run_going_until_it_is_ended(self):
        folder = harness.scratch()
        hosts = environments(folder, harness.LINEAR_JOB.replace(
            "epochs: 2", "seconds: 600") +
            "checkpoint { every_updates: 1000000 }\n")
        units = {unit: as_installed(unit, hosts[of_lead])
                 for unit, _, of_lead in STARTED}
        lead = hosts[True]["SLUICE_LEAD"]
        operator = f"--tls={folder / 'certs/operator'}"

        def training(generation):
            """The status once updates are made in a generation."""
            def look():
                said = harness.tool("status", lead, "--json", operator)
                status = json.loads(said.stdout) if said.stdout else {}
                if status.get("generation") == generation and \
                        status["phase"] == "running" and \
                        status["version"] > restored(status):
                    return status
                return None
            return harness.wait_until(look, f"generation {generation} to train",
                                      manager.process)

        with UserManager(units) as manager:
            manager.do("start", *NAMES)
            training(1)
            manager.do("kill", "--signal=KILL", "sluice-shard@1.service")
            before = training(2)["version"]
            self.assertEqual(
                manager.show("sluice-shard@1.service", "NRestarts"), "1")
            # As when the lead's host is started again.
            manager.do("stop", "sluice-lead.service")
            self.assertEqual(
                manager.show("sluice-lead.service", "ActiveState"), "inactive")
            manager.do("start", "sluice-lead.service")
            after = training(3)
            self.assertGreaterEqual(restored(after), before)
            stopped = harness.tool("stop", lead, operator)
            self.assertEqual(stopped.returncode, 0, stopped.stderr)
            for name in NAMES:
                harness.wait_until(
                    lambda: manager.show(name, "ActiveState") == "inactive",
                    f"{name} to end", manager.process)
                self.assertEqual(manager.show(name, "Result"), "success")
        summary = json.loads((folder / "run/summary.json").read_text())
        self.assertEqual(summary["reason"], "stopped by the user")
        self.assertEqual(summary["failure"], "")


if __name__ == "__main__":
    harness.main()
