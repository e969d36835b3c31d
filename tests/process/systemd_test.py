#!/usr/bin/python3 -B
"""The units of deploy/systemd, without systemd: their commands train a job with
certificates, and where systemd-analyze is installed it finds nothing wrong."""

import json
import shlex
import string
import subprocess
import unittest

import harness
from tls_run import certs

UNITS = harness.ROOT / "deploy/systemd"
PROGRAMS = {"/usr/local/bin/ps_server": harness.PS_SERVER,
            "/usr/local/bin/worker": harness.WORKER,
            "/usr/local/bin/evaluator": harness.EVALUATOR}


def settings(file):
    """The lines NAME=VALUE of a unit or of an environment file."""
    return dict(line.split("=", 1) for line in file.read_text().splitlines()
                if "=" in line and not line.startswith("#"))


def command(unit, instance, environment):
    """What systemd would start."""
    line = settings(UNITS / unit)["ExecStart"].replace("%i", instance)
    program, *words = shlex.split(string.Template(line).substitute(environment))
    return [PROGRAMS[program], *words]


class SystemdTest(unittest.TestCase):

    def test_the_commands_of_the_units_train_a_job(self):
        folder = harness.scratch()
        (folder / "run").mkdir()
        lead, other = harness.reserve_port(), harness.reserve_port()
        environment = settings(UNITS / "sluice.env")
        environment.update(
            SLUICE_JOB=harness.write_job(harness.LINEAR_JOB),
            SLUICE_RUN=folder / "run", SLUICE_CERTS=certs(folder / "certs"),
            SLUICE_LEAD=f"localhost:{lead}", SLUICE_HOST="localhost")
        started = [("sluice-lead.service", "", lead),
                   ("sluice-shard@.service", "1", other),
                   ("sluice-worker@.service", "0", other),
                   ("sluice-worker@.service", "1", other),
                   ("sluice-evaluator.service", "", other)]
        harness.run_together(
            {f"{unit}{instance}": command(
                unit, instance, {**environment, "SLUICE_PORT": port})
             for unit, instance, port in started}, folder)
        summary = json.loads((folder / "run/summary.json").read_text())
        self.assertEqual(summary["failure"], "")
        self.assertGreater(summary["version"], 0)

    def test_every_unit_goes_on_after_75_and_a_signal_and_not_after_2_and_3(self):
        units = list(UNITS.glob("*.service"))
        self.assertEqual(len(units), 4)
        for unit in units:
            with self.subTest(unit=unit.name):
                wanted = settings(unit)
                self.assertEqual(wanted["Restart"], "on-failure")
                never = wanted["RestartPreventExitStatus"].split()
                self.assertEqual(
                    never, ["2", "3"] if "lead" in unit.name
                    else ["1", "2", "3"])

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


if __name__ == "__main__":
    harness.main()
