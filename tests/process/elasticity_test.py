#!/usr/bin/python3 -B
"""Workers join and leave a run, announced or not. Every gradient gets its
verdict, no mini-batch is in two updates, SYNC's bits stay the same, and a run
that waits for more workers says so."""

import signal
import subprocess
import unittest

import cluster
import harness
import ledger

# Two workers; numbers 2 and 3 may join. The lease is short, as in
# worker_failures_test. Tasks are long enough for a run to be observed before it
# ends.
SETS = ["cluster.workers=2", "cluster.max_workers=4", "limits.lease_s=2",
        "delays.compute.constant.ms=2"]
UNTIL_STOPPED = "stop={seconds: 600}"


class Newcomer:
    """A worker that is started by hand during a run. Use as a context manager;
    at its end the worker is gone."""

    def __init__(self, run, number):
        self._log = harness.scratch() / f"worker-{number}.log"
        lead = (run.dir / "addresses").read_text().split()[1]
        with open(self._log, "w") as log:
            self.process = subprocess.Popen(
                [harness.WORKER, f"--job={run.dir}/job.textproto",
                 f"--coordinator={lead}", f"--worker={number}"],
                stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def end(self):
        """The exit status, after it has ended."""
        return self.process.wait(timeout=harness.TIMEOUT_S)

    @property
    def log(self):
        return self._log.read_text()


def worker(status, number):
    """The status of worker `number`; empty if it never joined."""
    return next((w for w in status["worker"] if w["id"] == number), {})


def contributes(number):
    return lambda status: worker(status, number).get(
        "gradients", {}).get("applied", 0) > 0


def is_in_state(number, state):
    return lambda status: worker(status, number).get("state") == state


class ElasticityTest(unittest.TestCase):

    def start(self, *sets):
        return cluster.Training(harness.write_job(harness.LINEAR_JOB),
                                *harness.sets([*SETS, *sets]))

    def stop(self, run):
        """Stops the run, which must succeed with balanced books."""
        run.interrupt()
        self.check_end(run)

    def check_end(self, run):
        output = run.end()
        self.assertEqual(run.process.returncode, 0, output)
        ledger.Ledger(run.dir / "commit_log").check(self)
        books = harness.tool("ledger", run.dir)
        self.assertEqual(books.returncode, 0, books.stdout + books.stderr)

    def grow_and_shrink(self, *policy):
        """Two workers join a run of two. One of them leaves, the other is
        killed, and one of the original workers leaves. Returns the run's
        summary."""
        with self.start(UNTIL_STOPPED, *policy) as run:
            run.await_version(20)
            with Newcomer(run, 2) as leaver, Newcomer(run, 3) as victim:
                run.await_status(contributes(2), "a gradient of worker 2")
                run.await_status(contributes(3), "a gradient of worker 3")
                leaver.process.send_signal(signal.SIGTERM)
                self.assertEqual(leaver.end(), 0, leaver.log)
                run.await_status(is_in_state(2, "left"), "worker 2 to leave")
                victim.process.kill()
                run.await_status(is_in_state(3, "dead"),
                                 "worker 3's lease to expire")
            with Newcomer(run, 2) as back:
                run.signal("worker-1", signal.SIGTERM)
                status = run.await_status(is_in_state(1, "left"),
                                          "worker 1 to leave")
                run.await_version(status["version"] + 20)
                run.interrupt()
                self.assertEqual(back.end(), 0, back.log)
            self.check_end(run)
            return run.summary

    def test_sync_gives_the_same_bits(self):
        policy = ["sync.policy=SYNC", "sync.gradients_per_update=4"]
        grown = self.grow_and_shrink(*policy)
        undisturbed = harness.train(
            harness.write_job(harness.LINEAR_JOB),
            *harness.sets([*policy, f"stop={{updates: {grown['version']}}}"]))
        self.assertEqual(grown["weights_sha256"],
                         undisturbed.summary["weights_sha256"])

    def test_k_sync(self):
        self.grow_and_shrink("sync.policy=K_SYNC", "sync.k=2")

    def test_k_batch_sync(self):
        self.grow_and_shrink("sync.policy=K_BATCH_SYNC", "sync.k=3")

    def test_async(self):
        self.grow_and_shrink("sync.policy=ASYNC")

    def test_k_async(self):
        self.grow_and_shrink("sync.policy=K_ASYNC", "sync.k=2")

    def test_k_batch_async(self):
        self.grow_and_shrink("sync.policy=K_BATCH_ASYNC", "sync.k=3")

    def test_a_shortage_that_a_newcomer_ends(self):
        """K_SYNC waits for K workers, says so, and goes on with another worker
        than the missing one."""
        with self.start(UNTIL_STOPPED, "sync.policy=K_SYNC", "sync.k=2",
                        "sync.shortage_timeout_s=600") as run:
            run.await_version(20)
            run.signal("worker-1", signal.SIGTERM)
            short = run.await_status(lambda s: "missing" in s["waiting_for"],
                                     "the status to say who is missing")
            self.assertEqual(short["waiting_for"],
                             "an update needs 2 gradients and 1 workers live; "
                             "missing: worker 1")
            with Newcomer(run, 3) as newcomer:
                run.await_version(short["version"] + 20)
                run.interrupt()
                self.assertEqual(newcomer.end(), 0, newcomer.log)
            self.check_end(run)

    def test_with_shrink_nobody_is_waited_for(self):
        with self.start(UNTIL_STOPPED, "sync.policy=K_ASYNC", "sync.k=2",
                        "sync.on_shortage=SHRINK") as run:
            run.await_version(20)
            run.signal("worker-1", signal.SIGTERM)
            alone = run.await_status(is_in_state(1, "left"),
                                     "worker 1 to leave")
            run.await_version(alone["version"] + 20)
            self.stop(run)
            self.assertRegex(run.log("ps_server-0"),
                             r"event=update_size version=\d+ gradients=1 of 2")

    def test_a_newcomer_goes_on_in_the_next_generation(self):
        with self.start(UNTIL_STOPPED, "sync.policy=ASYNC",
                        "checkpoint.every_updates=50") as run:
            run.await_version(20)
            with Newcomer(run, 2) as newcomer:
                run.await_status(contributes(2), "a gradient of worker 2")
                run.signal("ps_server-1", signal.SIGKILL)
                run.await_status(
                    lambda s: s["generation"] == 2 and contributes(2)(s),
                    "a gradient of worker 2 in generation 2")
                run.interrupt()
                self.assertEqual(newcomer.end(), 0, newcomer.log)
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)

    def test_a_worker_beyond_the_most_is_refused(self):
        with self.start(UNTIL_STOPPED) as run:
            run.await_version(1)
            with Newcomer(run, 4) as refused:
                self.assertEqual(refused.end(), 1)
                self.assertIn("worker 4: the job takes at most 4 "
                              "(cluster.max_workers), numbered from 0",
                              refused.log)
            self.stop(run)

    def test_a_worker_that_comes_when_all_is_over_is_told(self):
        """The coordinator stays as long as some process has not heard of the
        end; here that is worker 1, which is stopped."""
        with self.start("limits.lease_s=600", "limits.rejoin_timeout_s=600",
                        "sync.policy=ASYNC", "stop={updates: 2000}") as run:
            run.await_version(1)
            run.signal("worker-1", signal.SIGSTOP)
            run.await_status(lambda s: s["phase"] == "finished", "the end")
            for number in (3, 0):
                with Newcomer(run, number) as late:
                    self.assertEqual(late.end(), 0, late.log)
                    self.assertIn('event=run_over reason="training was over '
                                  'before it joined: 2000 updates made"',
                                  late.log)
            run.signal("worker-1", signal.SIGCONT)
            self.check_end(run)


if __name__ == "__main__":
    harness.main()
