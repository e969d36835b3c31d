#!/usr/bin/python3 -B
"""Many updates cost no memory. A queue, table or log that grows with the run
would be noticed. ASYNC, 8 workers, 20,000 updates of a tiny model."""

import json
import pathlib
import time
import unittest

import cluster
import harness
import ledger

UPDATES = 20000
# By then every daemon has allocated what it needs.
WARM = 5000
# Memory by which a daemon may grow in the 15,000 updates after that. One
# message or string kept per update is at least 80 bytes, which is above 1.1
# MiB. Without a leak 0.25 MiB were measured for the lead (whose threads begin
# to use their allocator's arenas late) and 0.02 MiB for a worker.
GROWTH_MIB = 1.0

JOB = """
name: "long"
cluster { workers: 8 shards: 2 }
sync { policy: ASYNC }
optimizer { learning_rate: 0.001 }
data {
  linear_regression { features: 16 train_samples: 1280 test_samples: 64 }
  batch_size: 4
}
model { layer { dense { units: 1 } } }
output { metrics_every_s: 0.1 }
stop { updates: %d }
""" % UPDATES


def resident_mib(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return None  # It has ended.


def version(run):
    """The last version in the run's metrics; 0 before there are any."""
    metrics = run.dir / "metrics.jsonl"
    lines = metrics.read_text().splitlines() if metrics.exists() else []
    for line in reversed(lines):
        try:
            return json.loads(line)["version"]
        except ValueError:
            continue  # The line is still being written.
    return 0


class LongRunTest(unittest.TestCase):

    # AddressSanitizer keeps freed memory for a while, to notice its use.
    @unittest.skipIf(harness.SANITIZER, "a sanitizer's own memory grows")
    def test_memory_is_flat_and_every_gradient_has_one_verdict(self):
        with cluster.Training(harness.write_job(JOB)) as run:
            # Reads the run's own files, because on a busy machine asking for
            # the status takes longer than the run.
            begun = harness.wait_until(
                lambda: version(run) >= WARM and version(run),
                f"version {WARM}", run.process)
            pids = run.pids()
            self.assertEqual(len(pids), 11)
            first = {name: resident_mib(pid) for name, pid in pids.items()}
            last = dict(first)
            while run.process.poll() is None:
                for name, pid in pids.items():
                    last[name] = resident_mib(pid) or last[name]
                time.sleep(0.02)  # Polling interval.
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            print(f"MiB grown from version {begun} on:",
                  {n: round(last[n] - first[n], 2) for n in pids})
            # Enough of the run was observed for the bound to be meaningful.
            self.assertLess(begun, UPDATES / 2)
            books = ledger.Ledger(run.dir / "commit_log")
            books.check(self)
            self.assertEqual(len(books.commits), UPDATES)
            self.assertEqual(run.summary["gradients"]["applied"], UPDATES)
            for name in pids:
                self.assertLess(last[name] - first[name], GROWTH_MIB, name)


if __name__ == "__main__":
    harness.main()
