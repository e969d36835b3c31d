#!/usr/bin/python3 -B
"""What `sluice deploy kubernetes` prints, without Kubernetes: the commands of
its pods train a job, with certificates and without, and the files of
deploy/kubernetes are what it prints today."""

import json
import os
import re
import subprocess
import unittest

import harness
import model_process_test
import pipeline_jobs
from tls_run import certs

MADE = harness.ROOT / "deploy/kubernetes"
DEMO = "configs/fashion_mnist_lenet.textproto"
PROGRAMS = [harness.PS_SERVER, harness.WORKER, harness.EVALUATOR]
# deploy/kubernetes/NAME is made with these.
FLAGS = {"jobs.yaml": ["--image=sluice-demo"],
         "jobset.yaml": ["--image=sluice-demo", "--jobset", "--pod-monitor"],
         "pods.yaml": ["--image=localhost/sluice-demo", "--pods"]}

# The first release in which podFailurePolicy is stable, and the newest one of
# which kubernetes-validate has schemas.
RELEASES = ["1.31", "1.37"]


def deploy(job, *flags):
    result = harness.tool("deploy", "kubernetes", job, *flags)
    assert result.returncode == 0, result.stderr
    return result


def objects(job, *flags):
    return json.loads(deploy(job, "--json", "--image=sluice", *flags).stdout)[
        "items"]


def pods_of(items):
    """(name, number, pod's spec) of every pod."""
    for item in items:
        name, spec = item["metadata"]["name"], item["spec"] \
            if "spec" in item else {}
        if item["kind"] == "Pod":
            yield name, 0, spec
        elif item["kind"] == "Job":
            for i in range(spec["completions"]):
                yield f"{name}-{i}", i, spec["template"]["spec"]


def known_to_kubernetes(item):
    """What Kubernetes has a schema for: of a JobSet, which is not its own, the
    Jobs in it; nothing of a PodMonitor."""
    if item["kind"] == "JobSet":
        return [{"apiVersion": "batch/v1", "kind": "Job",
                 "metadata": {"name": job["name"]},
                 "spec": job["template"]["spec"]}
                for job in item["spec"]["replicatedJobs"]]
    return [] if item["kind"] == "PodMonitor" else [item]


def expanded(word, number):
    """As Kubernetes hands a word to a container."""
    return re.sub(r"\$\$|\$\(JOB_COMPLETION_INDEX\)",
                  lambda m: "$" if m[0] == "$$" else str(number), word)


def command(spec, number, places):
    """What a pod's container would start, with other `places`."""
    [container] = spec["containers"]
    words = [expanded(word, number)
             for word in container["command"] + container["args"]]
    for pattern, place in places.items():
        words = [re.sub(pattern, str(place), word) for word in words]
    path = ":".join([*(str(p.parent) for p in PROGRAMS), os.environ["PATH"]])
    return ["env", f"PATH={path}", f"JOB_COMPLETION_INDEX={number}", *words]


class KubernetesTest(unittest.TestCase):

    def train(self, items, places, pods=2 + 2 + 1):
        """Runs the `pods` of `items`; `places` by what they replace."""
        folder = harness.scratch()
        (folder / "run").mkdir()
        [text] = [i["data"]["job.textproto"] for i in items
                  if i["kind"] == "ConfigMap"]
        (folder / "job.textproto").write_text(text)
        places = {"/etc/sluice/job/": f"{folder}/",
                  "/home/sluice/run": folder / "run", **places}
        commands = {name: command(spec, number, places)
                    for name, number, spec in pods_of(items)}
        self.assertEqual(len(commands), pods)
        harness.run_together(commands, folder)
        summary = json.loads((folder / "run/summary.json").read_text())
        self.assertEqual(summary["failure"], "")
        self.assertGreater(summary["version"], 0)

    def test_the_pods_of_jobs_train_with_certificates(self):
        folder = certs(harness.scratch() / "certs")
        items = objects(harness.write_job(harness.LINEAR_JOB), "--name=linear",
                        f"--tls={folder}")
        self.assertEqual(
            sorted(i["metadata"]["name"] for i in items
                   if i["kind"] == "Secret"),
            [f"linear-{role}-tls"
             for role in ("evaluator", "lead", "shard", "worker")])
        lead, shard = harness.reserve_port(), harness.reserve_port()
        # The network of the cluster and the mounts of each pod.
        for _, _, spec in pods_of(items):
            [secret] = [v["secret"]["secretName"] for v in spec["volumes"]
                        if "secret" in v]
            role = re.fullmatch("linear-(.*)-tls", secret)[1]
            words = spec["containers"][0]["args"]
            own = lead if role == "lead" else shard
            spec["containers"][0]["args"] = [
                word.replace("/etc/sluice/certs", f"{folder}/{role}")
                .replace("=0.0.0.0:7000", f"=127.0.0.1:{own}")
                for word in words]
        self.train(items, {r"linear-lead-0\.linear:7000": f"localhost:{lead}",
                           r"linear-shard-0\.linear:7000": f"localhost:{shard}",
                           r"0\.0\.0\.0:8080": "127.0.0.1:0"})

    def test_bare_pods_train_over_the_loopback(self):
        items = objects(harness.write_job(harness.LINEAR_JOB), "--name=linear",
                        "--pods")
        self.train(items, {f":{port}$": f":{harness.reserve_port()}"
                           for port in (7000, 7001, 8080)})

    def test_the_pods_of_workers_and_evaluator_start_the_program(self):
        items = objects(
            model_process_test.write_job(), "--name=external", "--pods",
            "--workers=2", "--shards=1", *model_process_test.MEASURED, "--",
            model_process_test.PROGRAM)
        self.train(items, {f":{port}$": f":{harness.reserve_port()}"
                           for port in (7000, 8080)}, pods=1 + 2 + 1)

    def test_the_pods_of_groups_train(self):
        items = objects(
            harness.write_job(pipeline_jobs.MLP), "--name=mlp", "--pods",
            "--workers=4", "--shards=2", "--set=stop.updates=20",
            "--set=worker.micro_batch=8", "--set=sync.policy=ASYNC",
            "--set=worker.group={pipeline_stages: 2 slots: 2 replicas: [2, 1]}")
        self.train(items, {f":{port}$": f":{harness.reserve_port()}"
                           for port in (*range(7000, 7008), 8080)},
                   pods=2 + 2 * 3 + 1)

    def test_the_files_of_the_tree_are_what_is_printed(self):
        self.assertEqual({f.name for f in MADE.glob("*.yaml")}, set(FLAGS))
        for name, flags in FLAGS.items():
            with self.subTest(name):
                self.assertEqual(deploy(harness.ROOT / DEMO, *flags).stdout,
                                 (MADE / name).read_text())

    @harness.suite("kubernetes")
    def test_kubernetes_own_schemas_hold(self):
        harness.find_packages_of("kubernetes")
        import kubernetes_validate
        import yaml  # On which that depends.
        document = (harness.ROOT / "docs/kubernetes.md").read_text()
        shown = [yaml.safe_load(text) for text in
                 re.findall(r"^```yaml\n(.*?)^```$", document, re.M | re.S)]
        self.assertEqual(len(shown), 1)
        for item in [*shown, *(item for flags in FLAGS.values() for item in
                               objects(harness.ROOT / DEMO, *flags[1:]))]:
            for known in known_to_kubernetes(item):
                for release in RELEASES:
                    kubernetes_validate.validate(known, release, strict=True)

    def test_a_job_from_a_pipe_is_refused_not_printed_empty(self):
        result = subprocess.run(
            [harness.TOOL, "deploy", "kubernetes", "/dev/stdin",
             "--image=sluice"], input=harness.LINEAR_JOB, text=True,
            capture_output=True, timeout=harness.TIMEOUT_S)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertEqual(
            result.stderr,
            "/dev/stdin: expected a regular file, for it is read twice\n")

    def test_bad_usage_is_refused_with_what_was_expected(self):
        job = harness.write_job(harness.LINEAR_JOB)
        image = "--image=sluice"
        others = harness.scratch() / "certs"
        harness.tool("certs", others, "--job=another", "--hosts=h")
        for flags, said in [
                ([image, f"--tls={others}"],
                 "the certificate is for spiffe://sluice/another/lead"),
                ([image, "--name=My_Run"], 'got "My_Run"'),
                ([image, "--pods", "--gpu"], "expected none of"),
                ([image, "--storage-class=A B"], 'got "A B"'),
                ([image, "--memory=lots"], 'got "lots"'),
                ([image, "--pods", "--jobset"], "excludes"),
                ([image, "--tls=/nowhere"], "/nowhere/lead/ca.crt"),
                ([image, "--", "python3"], "expected no -- COMMAND"),
                ([], "--image is required")]:
            with self.subTest(flags=flags):
                result = harness.tool("deploy", "kubernetes", job, *flags)
                self.assertEqual(result.returncode, 2)
                self.assertIn(said, result.stderr + result.stdout)


if __name__ == "__main__":
    harness.main()
