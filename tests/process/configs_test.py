#!/usr/bin/python3 -B
"""Every job in configs/ trains: a few updates through the real daemons."""

import unittest

import harness

UPDATES = 3


class ConfigsTest(unittest.TestCase):
    """One test for each file."""


def trains(job):
    def test(self):
        run = harness.train(job, "--set", f"stop.updates={UPDATES}")
        self.assertEqual(run.summary["version"], UPDATES)
        self.assertTrue((run.dir / "weights.safetensors").is_file())
    return test


def load():
    jobs = sorted((harness.ROOT / "configs").glob("*.textproto"))
    for job in jobs:
        setattr(ConfigsTest, f"test_{job.stem}", trains(job))
    return jobs


assert len(load()) >= 10, "where are the jobs?"

if __name__ == "__main__":
    harness.main()
