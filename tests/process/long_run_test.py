#!/usr/bin/python3 -B
"""Many updates cost no memory: every queue, table and log that grows with the
run would show. ASYNC, 8 workers, 20,000 updates of a tiny model."""

import pathlib
import unittest

import cluster
import harness
import ledger

UPDATES = 20000
# By now every daemon has allocated what it needs.
WARM = 5000
# What a daemon may grow by in the 15,000 updates after that. A message or a
# string kept for each update is 80 bytes or more, above 1.1 MiB; what was
# measured without a leak is 0.25 MiB for the lead (threads that use their
# allocator's arena late) and 0.02 MiB for a worker.
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


class LongRunTest(unittest.TestCase):

    def test_memory_is_flat_and_every_gradient_has_one_verdict(self):
        with cluster.Training(harness.write_job(JOB)) as run:
            run.await_version(WARM)
            pids = run.pids()
            self.assertEqual(len(pids), 11)
            first, last, versions = {}, {}, []
            while run.process.poll() is None:
                # Between two looks at another process's files.
                status = run.status()
                if status is None or status.get("phase") != "running":
                    break
                versions.append(status["version"])
                for name, pid in pids.items():
                    size = resident_mib(pid)
                    if size is not None:
                        first.setdefault(name, size)
                        last[name] = size
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            print(f"versions {versions[0]} to {versions[-1]}, MiB grown:",
                  {n: round(last[n] - first[n], 2) for n in pids})
            # Enough of the run was seen for the bound to mean something.
            self.assertGreater(versions[-1] - versions[0], UPDATES / 2)
            books = ledger.Ledger(run.dir / "commit_log")
            books.check(self)
            self.assertEqual(len(books.commits), UPDATES)
            self.assertEqual(run.summary["gradients"]["applied"], UPDATES)
            for name in pids:
                self.assertLess(last[name] - first[name], GROWTH_MIB, name)


if __name__ == "__main__":
    harness.main()
