#!/usr/bin/python3 -B
"""`sluice train --timeline` records the activity of the workers of a real run.
"""

import json
import unittest

import harness

STAGES = ["pull", "forward", "backward", "push"]


def events(folder):
    """The events in a file that is an array without its end."""
    text = (folder / "timeline.json").read_text()
    return json.loads(text.rstrip().rstrip(",") + "]")


def close(a, b):
    return abs(a - b) < 1  # Microseconds since 1970, in a double.


class TimelineTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        run = harness.train(
            harness.write_job(harness.LINEAR_JOB), "--timeline",
            *harness.sets(["sync.policy=K_SYNC", "sync.k=2",
                           "cluster.workers=3", "stop.epochs=8"]))
        cls.summary, cls.events = run.summary, events(run.dir)
        cls.tasks = [e for e in cls.events if e["name"] == "task"]

    def test_every_gradient_of_the_run_is_a_task_of_it(self):
        delivered = [e for e in self.tasks if e["args"]["outcome"] == "delivered"]
        self.assertGreaterEqual(len(delivered), self.summary["gradients"]["applied"])
        self.assertEqual(len({e["args"]["key"] for e in self.tasks}),
                         len(self.tasks))
        self.assertEqual({e["pid"] for e in self.tasks}, {0, 1, 2})
        self.assertEqual(sorted(e["args"]["name"] for e in self.events
                                if e["name"] == "process_name"),
                         ["worker 0", "worker 1", "worker 2"])

    def test_the_stages_of_a_task_fill_it_in_their_order(self):
        for worker in range(3):
            mine = [e for e in self.events if e["ph"] == "X" and
                    (e["pid"], e["tid"]) == (worker, 0)]
            end_of_last = 0
            while mine:
                task, mine = mine[0], mine[1:]
                self.assertGreater(task["ts"] + 1, end_of_last)
                at, names = task["ts"], []
                while mine and mine[0]["name"] != "task":
                    stage, mine = mine[0], mine[1:]
                    self.assertTrue(close(stage["ts"], at), (task, stage))
                    at += stage["dur"]
                    names.append(stage["name"])
                self.assertTrue(close(at, task["ts"] + task["dur"]), task)
                self.assertEqual(names, STAGES[:len(names)])
                if task["args"]["outcome"] == "delivered":
                    self.assertEqual(names, STAGES)
                end_of_last = at

    def test_what_travelled_for_a_gradient_has_tracks_of_its_own(self):
        delivered = [e for e in self.tasks if e["args"]["outcome"] == "delivered"]
        for name in ("weights travel", "gradient travels"):
            travels = [e for e in self.events if e["name"] == name]
            self.assertGreaterEqual(len(travels), len(delivered))
            for travel in travels:
                self.assertIn({"name": "thread_name", "ph": "M",
                               "pid": travel["pid"], "tid": travel["tid"],
                               "args": {"name": name}}, self.events)

    def test_without_the_flag_there_is_none(self):
        run = harness.train(harness.write_job(harness.LINEAR_JOB))
        self.assertFalse((run.dir / "timeline.json").exists())


if __name__ == "__main__":
    harness.main()
