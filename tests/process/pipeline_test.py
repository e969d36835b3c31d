#!/usr/bin/python3 -B
"""Workers of several processes, each with some of the model's layers: the bits
of workers of one, whoever dies, and the books of every policy."""

import contextlib
import gzip
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import time
import unittest

import cluster
import harness
import tls_run
from pipeline_jobs import LONG, MLP, SLOW, SYNC, WIDE, sound, stages

# Four passes of 16 samples follow each other through the stages.
LENET = ["worker.micro_batch=16", "stop.updates=6"]

class PipelineTest(unittest.TestCase):

    def sha(self, job, overrides, workers=1, shards=1):
        return harness.train(
            job, f"--workers={workers}", f"--shards={shards}",
            *harness.sets(overrides)).summary["weights_sha256"]

    # ---- Bits ----

    def test_tls_changes_no_bit(self):
        job = harness.LENET
        name = re.search('name: "(.*)"', job.read_text())[1]
        certs = tls_run.certs(harness.scratch() / "certs", job=name)
        sets = SYNC + LENET + stages(2)
        with_tls = harness.train(job, f"--tls={certs}", "--workers=1",
                                 "--shards=1", *harness.sets(sets)).summary
        self.assertEqual(with_tls["weights_sha256"], self.sha(job, sets))

    def test_lenet_has_the_bits_of_workers_of_one_process(self):
        whole = self.sha(harness.LENET, SYNC + LENET)
        for workers, shards, group in (
                (1, 1, stages(2)), (2, 2, stages(2)), (2, 3, stages(3)),
                (1, 2, stages(3, ["conv2d3", "dense7"]))):
            self.assertEqual(
                self.sha(harness.LENET, SYNC + LENET + group, workers, shards),
                whole, (workers, shards, group))

    def test_batch_norm_dropout_and_local_steps(self):
        job = harness.write_job(MLP)
        for more in (["worker.micro_batch=6"],
                     ["worker.micro_batch=9", "worker.clip_norm=0.5"],
                     ["worker.micro_batch=10", "sync.local_steps=3",
                      "optimizer.averaging={}"],
                     ["worker.micro_batch=8", "wire={ pull: BF16 push: BF16 }"]):
            whole = self.sha(job, SYNC + more)
            for group in (stages(2), stages(3, ["batch_norm1", "dense4"])):
                self.assertEqual(self.sha(job, SYNC + more + group, 2, 2),
                                 whole, (more, group))

    def test_each_member_moves_the_bytes_of_its_stage(self):
        sets = [*SYNC, "stop.updates=5", "worker.micro_batch=8",
                *stages(3, ["batch_norm1", "dense4"])]
        job = harness.write_job(MLP)
        check = json.loads(harness.tool(
            "check", job, "--json", *harness.sets(
                [*sets, "cluster.shards=2"])).stdout)
        cut = check["shards"][1]["begin"]
        run = harness.train(job, "--workers=1", "--shards=2",
                            *harness.sets(sets))
        tasks = 5 * 4
        begin = 0
        for number, member in enumerate(check["worker"]["members"]):
            log = run.dir / f"worker-0{f'.{number}' if number else ''}.log"
            moved = {counter: int(re.search(rf"{counter}_bytes_total=(\d+)",
                                            log.read_text()).group(1))
                     for counter in ("pulled", "pushed")}
            own = 4 * member["floats"]
            self.assertEqual(moved["pushed"], tasks * own, number)
            # What was prefetched for a task that did not come may have come,
            # from one shard or both.
            end = begin + member["floats"]
            first = 4 * (min(max(cut, begin), end) - begin)
            self.assertIn(moved["pulled"] - tasks * own,
                          (0, first, own - first, own), number)
            begin = end

    def test_the_timeline_has_the_passes_of_each_member(self):
        run = harness.train(
            harness.write_job(MLP), "--workers=2", "--timeline",
            *harness.sets([*SYNC, "stop.updates=3", "worker.micro_batch=8",
                           *stages(2, ["dense4"])]))
        text = (run.dir / "timeline.json").read_text()
        events = json.loads(text.rstrip().rstrip(",") + "]")
        names = {e["pid"]: e["args"]["name"] for e in events
                 if e["name"] == "process_name"}
        self.assertEqual(names, {
            2 * w + m: f"worker {w} member {m}"
            for w in (0, 1) for m in (0, 1)})
        for pid in names:
            task = next(e for e in events
                        if e["pid"] == pid and e["name"] == "task")
            passes = sorted(
                (e["ts"], e["name"]) for e in events
                if e["pid"] == pid and e["name"] in ("forward", "backward")
                and task["ts"] <= e["ts"] < task["ts"] + task["dur"])
            # 1F1B: forwards that follow each other are one event.
            order = re.sub("(.)\\1*", r"\1", "".join(n[0] for _, n in passes))
            self.assertEqual(order, "fbfb" if pid % 2 == 0 else "fbfbfbfb")
        picture = harness.scratch() / "pipeline.svg"
        subprocess.run(
            [harness.ROOT / "docs/make_pipeline_picture.py",
             run.dir / "timeline.json", picture, "--worker=1"], check=True)
        drawn = picture.read_text()
        self.assertIn(">member 1</text>", drawn)
        # One in the legend; the first member's forwards are 2, the other's 4.
        self.assertGreaterEqual(drawn.count('fill="#4477aa"'), 1 + 2 + 4)

    # ---- Deaths ----

    def disturbed(self, strike, sets=LONG, recoveries=0):
        """A run in whose middle `strike(run)` does something: it ends with the
        bits of a calm run of workers of one process."""
        job = harness.write_job(MLP)
        with cluster.Training(job, *harness.sets(sets + stages(2)),
                              "--workers=2", "--shards=2", SLOW) as run:
            run.await_version(15)
            strike(run)
            output = run.end()
            self.assertEqual(run.process.returncode, 0, output)
            calm = harness.train(job, *harness.sets(sets)).summary
            for name in ("weights_sha256", "version", "samples", "test_loss"):
                self.assertEqual(run.summary[name], calm[name], name)
            self.assertEqual(run.summary["generation"], 1 + recoveries)
            sound(self, run)
            return run, output

    def test_a_member_that_is_killed(self):
        run, output = self.disturbed(
            lambda run: run.signal("worker-1.1", signal.SIGKILL))
        self.assertIn("worker-1.1: killed by signal 9 (Killed); starting it "
                      "again", output)
        self.assertIn('event=link_broken reason="member 1 of worker 1 is gone"',
                      run.log("worker-1"))

    def test_a_member_that_stands_still(self):
        def strike(run):
            stopped = time.monotonic()
            run.signal("worker-1.1", signal.SIGSTOP)
            harness.wait_until(
                lambda: "member 1 of worker 1 is gone" in run.log("worker-1"),
                "the link to be given up", run.process)
            # After limits.lease_s; a connection's own limit is 20 s.
            self.assertLess(time.monotonic() - stopped, 10)
            run.signal("worker-1.1", signal.SIGCONT)
        self.disturbed(strike, LONG + ["limits.lease_s=2"])

    def test_a_member_that_stands_still_while_much_is_sent_to_it(self):
        job = harness.write_job(WIDE)
        for stopped, other, reason in (
                ("worker-0.1", "worker-0", '"member 1 of worker 0 is gone"'),
                ("worker-0", "worker-0.1", '"member 0 of worker 0 at ')):
            with self.subTest(stopped=stopped), cluster.Training(
                    job, *harness.sets([
                        *stages(2, ["dense2"]), "limits.lease_s=2"]),
                    "--workers=1", "--shards=1") as run:
                for times in (1, 2, 3):  # Not each hits the middle of a piece.
                    run.await_version(run.await_version(1)["version"] + 2)
                    since = time.monotonic()
                    run.signal(stopped, signal.SIGSTOP)
                    said = f"event=link_broken reason={reason}"
                    harness.wait_until(
                        lambda: run.log(other).count(said) == times,
                        "the link to be given up", run.process)
                    self.assertLess(time.monotonic() - since, 10)
                    run.signal(stopped, signal.SIGCONT)
                run.await_version(run.await_version(1)["version"] + 2)
                # Whoever waits for one that stands still ends when it is told.
                run.signal(stopped, signal.SIGSTOP)
                run.signal(other, signal.SIGTERM)
                harness.wait_until(lambda: other not in run.pids(),
                                   "the other member to end", run.process)
                run.signal(stopped, signal.SIGCONT)
                run.interrupt()
                output = run.end()
                self.assertEqual(run.process.returncode, 0, output)

    def test_the_first_member_that_is_killed(self):
        run, _ = self.disturbed(
            lambda run: run.signal("worker-0", signal.SIGKILL))
        self.assertIn('event=link_broken reason="member 0 of worker 0 at',
                      run.log("worker-0.1"))

    def test_a_member_that_is_given_up_ends_its_worker(self):
        job = harness.write_job(MLP)
        for workers in (1, 2):
            with self.subTest(workers=workers), cluster.Training(
                    job, *harness.sets([*LONG, "stop.epochs=100000",
                                        *stages(2)]),
                    f"--workers={workers}") as run:
                run.await_version(1)
                run.kill_until(["worker-0.1"], lambda: not {
                    "worker-0", "worker-0.1"} & set(run.pids()))
                if workers == 2:  # The other one goes on.
                    run.await_version(run.await_version(0)["version"] + 5)
                    run.interrupt()
                output = run.end()
                self.assertEqual(run.process.returncode, 2 - workers, output)
                last = "; no worker is left" if workers == 1 else ""
                self.assertIn("worker-0.1: killed by signal 9 (Killed), for "
                              f"the 6th time in a row{last}\n", output)

    def test_with_a_member_that_leaves_its_worker_leaves(self):
        job = harness.write_job(MLP)
        for left in ("worker-0.1", "worker-0"):
            with self.subTest(left=left), cluster.Training(
                    job, *harness.sets(["sync.policy=ASYNC",
                                        "stop.epochs=100000", *stages(2)]),
                    "--workers=2") as run:
                run.await_version(1)
                run.signal(left, signal.SIGTERM)
                harness.wait_until(
                    lambda: not {"worker-0", "worker-0.1"} & set(run.pids()),
                    "the worker to leave", run.process)
                # The other one goes on.
                run.await_version(run.await_version(0)["version"] + 5)
                run.interrupt()
                output = run.end()
                self.assertEqual(run.process.returncode, 0, output)
                self.assertNotIn("starting it again", output)

    def test_a_shard_that_is_killed(self):
        self.disturbed(lambda run: run.signal("ps_server-1", signal.SIGKILL),
                       recoveries=1)

    def test_the_lead_that_is_killed(self):
        self.disturbed(lambda run: run.signal("ps_server-0", signal.SIGKILL),
                       recoveries=1)

    # ---- Policies ----

    def test_the_books_and_the_replay_of_every_policy(self):
        job = harness.write_job(MLP)
        for sync in ("{ policy: K_SYNC k: 2 }", "{ policy: K_BATCH_SYNC k: 2 }",
                     "{ policy: ASYNC }", "{ policy: K_ASYNC k: 2 }",
                     "{ policy: K_BATCH_ASYNC k: 2 }"):
            run = harness.train(
                job, "--workers=3", "--shards=2",
                *harness.sets([f"sync={sync}", "worker.micro_batch=8",
                               "optimizer.learning_rate=0.005"] + stages(2)))
            self.assertEqual(run.summary["samples"], 2 * 1280, sync)
            sound(self, run)

    # ---- In virtual time ----

    def test_a_simulated_run_is_replayed_and_says_what_the_stages_wait(self):
        folder = harness.scratch() / "run"
        args = [harness.write_job(MLP), *harness.sets(
            ["sync={ policy: K_ASYNC k: 2 }", "optimizer.learning_rate=0.005",
             "worker.micro_batch=8", "delays.compute.constant.ms=50",
             *stages(2)]), "--workers=3", "--shards=2"]
        run = harness.tool("simulate", *args, "--run-dir", folder)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout,
                         r"a task +0\.0\d+ s, of which bubble \d+\.\d\d%; "
                         r"members idle \d+\.\d\d%, \d+\.\d\d%")
        for command in ("ledger", "replay"):
            result = harness.tool(command, folder)
            self.assertEqual(result.returncode, 0, result.stdout)

    # ---- By hand ----

    def test_members_on_addresses_of_their_own(self):
        folder = harness.scratch()
        job = harness.write_job(MLP)
        lead, head = (f"127.0.0.1:{harness.reserve_port()}" for _ in range(2))
        common = [f"--job={job}", *harness.sets(SYNC + stages(2))]
        worker = [harness.WORKER, *common, "--worker=0", "--insecure",
                  f"--coordinator={lead}"]
        harness.run_together({
            "worker-0.1": [*worker, "--member=1", f"--upstream={head}"],
            "ps_server-0": [harness.PS_SERVER, *common, "--shard=0",
                            f"--listen={lead}", f"--run-dir={folder}"],
            "evaluator": [harness.EVALUATOR, *common, f"--coordinator={lead}",
                          f"--run-dir={folder}"],
            "worker-0": [*worker, f"--listen={head}"],
        }, folder)
        summary = json.loads((folder / "summary.json").read_text())
        self.assertEqual(summary["weights_sha256"], self.sha(job, SYNC))

    # ---- Bad input ----

    def refused(self, *args, command="check"):
        result = harness.tool(command, *args)
        self.assertEqual(result.returncode, 2, result.stdout)
        return result.stderr

    def test_cuts_that_cannot_be(self):
        job = harness.LENET
        for group, words in (
                (stages(2, ["conv9"]),
                 "worker.group.cuts[0]: expected the name of a layer (conv2d0, "),
                (stages(3, ["dense7", "conv2d3"]),
                 "worker.group.cuts[1]: expected a layer behind dense7, is "
                 "conv2d3"),
                (stages(2, ["conv2d3", "dense7"]),
                 "worker.group.cuts: must be 1 (worker.group.pipeline_stages "
                 "less 1), are 2"),
                (stages(3, ["relu1", "max_pool2"]),
                 "worker.group.cuts: stage 1, from relu1 to relu1, has no "
                 "weights, expected each stage to have some"),
                (stages(6),
                 "worker.group.pipeline_stages: must be 1 to 5 (layers with "
                 "weights that can be apart), is 6"),
                (stages(2) + ["delays.stage=[{ forward: 1 backward: 2 }]"],
                 "delays.stage: must be 2 (worker.group.pipeline_stages), are 1"),
                (stages(2) + ["worker.device=CUDA", "worker.precision=FP16"],
                 "worker.precision: must be FP32, TF32 or BF16 with "
                 "worker.group.pipeline_stages 2, is FP16"),
                (stages(2) + ["wire.push=FP16"],
                 "wire.push: must be FP32 or BF16 with "
                 "worker.group.pipeline_stages 2, is FP16")):
            self.assertIn(words, self.refused(job, *harness.sets(group)))

    def test_a_cut_inside_a_residual(self):
        job = harness.write_job(harness.BATCH_NORM_JOB)
        said = self.refused(job, *harness.sets(
            stages(2, ["residual5.dense0"])))
        self.assertIn("worker.group.cuts[0]: expected a layer that lies in no "
                      "residual, is ", said)

    def worker(self, *args, cwd=None):
        return subprocess.run(
            [harness.WORKER, f"--job={harness.LENET}",
             "--coordinator=127.0.0.1:1", *args,
             *([] if "--worker=any" in args else ["--worker=0"])],
            cwd=cwd, capture_output=True, text=True, timeout=harness.TIMEOUT_S)

    def test_flags_that_do_not_fit(self):
        two = harness.sets(stages(2))
        for args, words in (
                ([*two, "--member=2"], "--member: must be 0 to 1"),
                ([*two, "--member=1"], "--upstream: member 1 needs 1 addresses"),
                (two, "--listen: member 0 needs an address"),
                (["--listen=127.0.0.1:0"],
                 "--listen: member 0 has none behind it, expected none"),
                ([*two, "--worker=any", "--listen=unix-abstract:any"],
                 "worker.group.pipeline_stages: the members of a group know "
                 "each other by its number"),
                ([*two, "--listen=10.1.2.3:7000"],
                 "10.1.2.3:7000 is not on the loopback")):
            ended = self.worker(*args)
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn(words, ended.stderr)

    def test_a_member_that_never_comes_is_named(self):
        ended = self.worker(
            *harness.sets(stages(2) + ["limits.start_timeout_s=3"]),
            "--listen=unix-abstract:sluice-pipeline-test-alone")
        self.assertEqual(ended.returncode, 75, ended.stderr)
        self.assertIn("member 1 of worker 0: no link for 3s "
                      "(limits.start_timeout_s)", ended.stderr)

    def test_an_address_in_use_is_named(self):
        with socket.socket(socket.AF_UNIX) as taken:
            name = f"sluice-pipeline-test-taken-{os.getpid()}"
            taken.bind("\0" + name)
            taken.listen()
            ended = self.worker(*harness.sets(stages(2)),
                                f"--listen=unix-abstract:{name}")
        # As of any daemon, and not as of flags that will be wrong again.
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn(f"--listen: unix-abstract:{name} cannot be listened on",
                      ended.stderr)

    def refusal_of_a_member(self, *differs, sets=(), folders=(None, None)):
        """What member 1 of a worker says whose job differs in this, or whose
        folder does."""
        address = f"--listen=unix-abstract:sluice-pipeline-test-{os.getpid()}"
        sets = stages(2) + ["limits.start_timeout_s=10", *sets]
        with subprocess.Popen(
                [harness.WORKER, f"--job={harness.LENET}", "--worker=0",
                 "--coordinator=127.0.0.1:1", *harness.sets(sets), address],
                cwd=folders[0], stderr=subprocess.PIPE, text=True) as head:
            other = self.worker(
                *harness.sets([*sets, *differs]), "--member=1",
                address.replace("listen", "upstream"), cwd=folders[1])
            head.kill()
        self.assertEqual(other.returncode, 1, other.stderr)
        return other.stderr

    def test_a_member_of_another_job(self):
        self.assertIn("member 1 of worker 0: has another job: seed: 5 here, 1 "
                      "there", self.refusal_of_a_member("seed=5"))

    def test_a_member_with_other_labels(self):
        path = re.search('train_labels: "(.*)"', harness.LENET.read_text())[1]
        labels = bytearray(gzip.decompress(pathlib.Path(path).read_bytes()))
        folders = harness.scratch(), harness.scratch()
        for folder in folders:
            (folder / "labels").write_bytes(labels)
            labels[-1] ^= 1
        self.assertRegex(
            self.refusal_of_a_member(sets=["data.idx.train_labels=labels"],
                                     folders=folders),
            'member 1 of worker 0: training data is .?"sha256 .*" here, '
            '.?"sha256 .*" there')

    def test_a_flood_of_connections_does_not_keep_the_member_out(self):
        # An address of this test alone.
        address = "127.91.{}.{}:7912".format(*divmod(os.getpid() % 65536, 256))
        sets = harness.sets(stages(2) + ["limits.start_timeout_s=60"])
        most = (96, 96)  # Open files of the head.
        log = harness.scratch() / "log"
        with contextlib.ExitStack() as stack:
            head = stack.enter_context(subprocess.Popen(
                [harness.WORKER, f"--job={harness.LENET}", "--worker=0",
                 "--coordinator=127.0.0.1:1", *sets, f"--listen={address}"],
                stderr=stack.enter_context(log.open("w")),
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                      most)))
            stack.callback(head.kill)
            harness.wait_until(lambda: "event=ready" in log.read_text(),
                               "the head to be ready", head)
            host, port = address.split(":")
            flood = [socket.create_connection((host, int(port)))
                     for _ in range(2 * most[0])]
            harness.wait_until(
                lambda: "event=connection_refused" in log.read_text(),
                f"connections to be refused, by {log}", head)
            for connection in flood:
                connection.close()
            other = stack.enter_context(subprocess.Popen(
                [harness.WORKER, f"--job={harness.LENET}", "--worker=0",
                 "--coordinator=127.0.0.1:1", "--member=1", *sets,
                 f"--upstream={address}"], stderr=subprocess.DEVNULL))
            stack.callback(other.kill)
            harness.wait_until(lambda: "event=linked" in log.read_text(),
                               "the member to be linked", head)


if __name__ == "__main__":
    harness.main()
