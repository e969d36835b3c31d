#!/usr/bin/python3 -B
"""`sluice chaos` disturbs a run according to its seed, checks the result, and
reports what does not hold."""

import json
import os
import unittest

import faulty_disk
import harness

# A few seconds of training, so that there is a run to disturb: 20 updates an
# epoch.
EPOCHS = 10
JOB = harness.LINEAR_JOB.replace("workers: 2", "workers: 3").replace(
    "epochs: 2", f"epochs: {EPOCHS}")
SETS = harness.sets(["sync.gradients_per_update=2", "limits.lease_s=1",
                     "delays.compute.constant.ms=10",
                     "checkpoint.every_updates=5"])


def chaos(*args, job=JOB):
    run = harness.scratch() / "chaos"
    env = dict(os.environ)
    if any(str(arg).startswith("--storage-faults") for arg in args):
        env["ASAN_OPTIONS"] = faulty_disk.ASAN_OPTIONS  # It preloads a disk.
    result = harness.tool("chaos", harness.write_job(job), *SETS,
                          "--run-dir", run, *args, env=env)
    return run, result


class ChaosTest(unittest.TestCase):

    def held(self, *args, job=JOB):
        run, result = chaos("--json", *args, job=job)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(report, json.loads((run / "chaos.json").read_text()))
        self.assertTrue(report["holds"])
        for act in report["acts"]:
            self.assertGreaterEqual(act["version"], act["at_version"])
            # The printed plan is carried out.
            self.assertIn(f"version {act['at_version']}", result.stderr)
        return run, report

    def test_workers_and_the_evaluator_come_and_go_under_sync(self):
        run, report = self.held("--no-servers", "--seed=3", "--kills=4",
                                "--stops=2", "--cuts=0")
        self.assertEqual([a["kind"] for a in report["acts"]].count("kill"), 4)
        self.assertEqual({a["part"].split("-")[0] for a in report["acts"]},
                         {"worker"})
        self.assertEqual(report["generations"], 1)
        self.assertEqual(report["disturbed"]["weights_sha256"],
                         report["undisturbed"]["weights_sha256"])
        books = harness.tool("ledger", run / "disturbed", "--json")
        self.assertEqual(books.returncode, 0, books.stdout)
        self.assertEqual(json.loads(books.stdout)["mini_batches"], EPOCHS * 40)
        self.assertEqual(json.loads(books.stdout)["gradients"],
                         report["gradients"])

        # An undisturbed run is used again if it is of the same job.
        _, again = self.held("--no-servers", "--seed=4", "--kills=1",
                             "--stops=0", "--cuts=0", "--undisturbed",
                             run / "undisturbed")
        self.assertEqual(again["undisturbed"], report["undisturbed"])
        other, result = chaos("--undisturbed", run / "undisturbed",
                              "--set=seed=9", "--kills=1")
        self.assertEqual(result.returncode, 2)
        self.assertIn("is a run of another job: seed: 9 here, 1 there",
                      result.stderr)
        self.assertFalse(other.exists())

    def test_shards_and_the_coordinator_die_under_sync(self):
        # Links are cut only if this machine allows it, as it does for root. A
        # shard has room for one gradient.
        run, report = self.held("--seed=3", "--kills=6", "--stops=2",
                                "--set=limits.staged_gradients=1")
        parts = [a["part"] for a in report["acts"] if a["kind"] == "kill"]
        self.assertEqual(sorted(p.startswith("ps_server") for p in parts),
                         [False] * 2 + [True] * 4)
        self.assertIn("ps_server-0", parts)
        # Each kill of a server begins a generation.
        self.assertGreater(report["generations"], 4)
        self.assertEqual(report["disturbed"]["weights_sha256"],
                         report["undisturbed"]["weights_sha256"])
        replayed = harness.tool("replay", run / "disturbed")
        self.assertEqual(replayed.returncode, 0, replayed.stdout)

    def test_with_certificates_everything_holds_as_well(self):
        folder = harness.scratch() / "certs"
        made = harness.tool("certs", folder, "--job=linear",
                            "--hosts=localhost")
        self.assertEqual(made.returncode, 0, made.stderr)
        run, report = self.held("--seed=3", "--kills=3", "--stops=1",
                                f"--tls={folder}")
        self.assertGreater(report["generations"], 1)
        self.assertEqual(report["disturbed"]["weights_sha256"],
                         report["undisturbed"]["weights_sha256"])
        self.assertIn("tls=true insecure=false", (
            run / "disturbed" / "ps_server-0.log").read_text())

    def test_shards_and_the_coordinator_die_under_k_async(self):
        _, report = self.held("--seed=4", "--kills=3", "--stops=0",
                              "--cuts=0", "--set=sync={ policy: K_ASYNC k: 2 }",
                              "--set=optimizer.learning_rate=0.005")
        self.assertGreater(report["generations"], 2)

    def test_members_of_groups_with_slots_die_under_sync(self):
        _, report = self.held(
            "--seed=2", "--kills=8", "--stops=1", "--cuts=0", "--workers=6",
            "--set=worker.group={ pipeline_stages: 2 slots: 2 }",
            job=JOB.replace("model {", "model { layer { dense { units: 8 } }"))
        killed = {a["part"] for a in report["acts"] if a["kind"] == "kill"}
        self.assertLessEqual(
            {"worker-1.1", "worker-2.1", "ps_server-0", "ps_server-1"}, killed)
        self.assertEqual(report["disturbed"]["weights_sha256"],
                         report["undisturbed"]["weights_sha256"])

    def test_servers_die_and_their_storage_fails_under_sync(self):
        # Long enough for a checkpoint that the last fault waits for while the
        # one before it holds up all checkpoints for half a second.
        _, report = self.held("--seed=2", "--kills=3", "--stops=0", "--cuts=0",
                              "--storage-faults=3",
                              f"--set=stop.epochs={2 * EPOCHS}")
        faults = [a for a in report["acts"] if a["kind"] == "storage"]
        self.assertEqual(sorted(a["fault"] for a in faults),
                         ["full", "stalled", "unreadable"])
        self.assertTrue(report["findings"]["rollback"]["holds"])
        self.assertEqual(report["disturbed"]["weights_sha256"],
                         report["undisturbed"]["weights_sha256"])

    def test_what_does_not_hold_is_said(self):
        epochs = "--set=stop.epochs=4"
        run = harness.train(harness.write_job(JOB), *SETS, epochs)
        other = {**run.summary, "test_loss": run.summary["test_loss"] + 1}
        (run.dir / "summary.json").write_text(json.dumps(other))
        _, result = chaos("--no-servers", "--kills=1", "--stops=0", "--cuts=0",
                          "--undisturbed", run.dir, epochs)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^BROKEN +test loss ")
        self.assertRegex(result.stdout, r"(?m)^holds +ledger ")

    def test_a_run_that_hangs_is_ended_and_whom_it_waits_for_is_named(self):
        # The only worker is killed twice within seconds: the second time it
        # stays away for a second, longer than is allowed.
        run, result = chaos("--no-servers", "--kills=2", "--stops=0",
                            "--cuts=0", "--patience=0.5", "--workers=1")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout,
                         r"BROKEN +end +no update for \S+s after version \d+ "
                         r"of generation 1; .*; the last act: kill worker-0")
        self.assertFalse((run / "disturbed/summary.json").exists())

    def test_what_cannot_be_disturbed_is_refused_with_the_reason(self):
        for args, words in [
                (["--set=stop={ seconds: 5 }"],
                 "stop: must be epochs or updates alone"),
                (["--kills=100"], "acts do not fit into"),
                (["--tolerance=-1"],
                 "--tolerance: expected a number from 0 to 1e+09, is -1"),
                (["--set=checkpoint={ every_s: 1 }"],
                 "checkpoint.every_updates: must be above 0"),
                (["--set=evaluation.enabled=false"],
                 "evaluation.enabled: must be true")]:
            _, result = chaos(*args, "--stops=0", "--cuts=0")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    harness.main()
