#!/usr/bin/python3 -B
"""The count of `./sluice test` is the number of cases that ran."""

import unittest

import count_cases

XML = b"""<testsuites><testsuite name="ATest">
<testcase name="Passes" status="run"/>
<testcase name="Fails" status="run"><failure message="x"/></testcase>
<testcase name="Skips" status="run"><skipped message="no device"/></testcase>
<testcase name="IsOff" status="notrun"/>
</testsuite></testsuites>"""


def read(path):
    if path != "/logs/test.xml":
        raise OSError(path)
    return XML


def configured(label, test=True):
    return {"id": {"targetConfigured": {"label": label}},
            "configured": {"testSize": "SMALL"} if test else {}}


def completed(label, success=True):
    return {"id": {"targetCompleted": {"label": label}},
            "completed": {"success": True} if success else {}}


def result(label, status, uri="file:///logs/test.xml", attempt=1):
    return {"id": {"testResult": {"label": label, "run": 1, "shard": 1,
                                  "attempt": attempt}},
            "testResult": {"status": status, "testActionOutput": [
                {"name": "test.log", "uri": "file:///logs/test.log"},
                {"name": "test.xml", "uri": uri}]}}


class CountCasesTest(unittest.TestCase):

    def line(self, *events):
        return count_cases.summary(count_cases.count(events, read))

    def test_every_case_of_the_report_counts(self):
        self.assertEqual(
            self.line(configured("//a:t"), completed("//a:t"),
                      result("//a:t", "FAILED")),
            "1 passed, 1 failed, 2 skipped")

    def test_a_test_that_did_not_build_is_one_failure(self):
        self.assertEqual(
            self.line(configured("//a:t"), completed("//a:t", False)),
            "0 passed, 1 failed")

    def test_a_library_that_did_not_build_is_one_failure(self):
        self.assertEqual(
            self.line(configured("//a:l", False), completed("//a:l", False)),
            "0 passed, 1 failed")

    def test_a_crash_without_a_report_is_one_failure(self):
        self.assertEqual(
            self.line(configured("//a:t"), completed("//a:t"),
                      result("//a:t", "FAILED", "file:///logs/none.xml")),
            "0 passed, 1 failed")

    def test_a_test_without_a_report_that_passed_once_is_one_case(self):
        for status in "PASSED", "FLAKY":
            self.assertEqual(
                self.line(configured("//a:t"), completed("//a:t"),
                          result("//a:t", status, "file:///logs/none.xml")),
                "1 passed, 0 failed", status)

    def test_a_failure_outside_the_cases_is_one_more(self):
        events = [configured("//a:t"), completed("//a:t"),
                  result("//a:t", "FAILED")]
        counts = count_cases.count(
            events, lambda path: XML.replace(b"<failure message=\"x\"/>", b""))
        self.assertEqual(count_cases.summary(counts),
                         "2 passed, 1 failed, 2 skipped")

    def test_the_last_attempt_counts(self):
        self.assertEqual(
            self.line(configured("//a:t"), completed("//a:t"),
                      result("//a:t", "FAILED", "file:///logs/none.xml"),
                      result("//a:t", "PASSED", "file:///logs/none.xml",
                             attempt=2)),
            "1 passed, 0 failed")

    def timed(self, label, millis, limit_s, shard=1):
        done = completed(label)
        done["completed"]["testTimeoutSeconds"] = str(limit_s)
        ran = result(label, "PASSED")
        ran["id"]["testResult"]["shard"] = shard
        ran["testResult"]["testAttemptDurationMillis"] = str(millis)
        return [done, ran]

    def test_the_slowest_come_first_with_their_limits(self):
        self.assertEqual(
            count_cases.slowest(self.timed("//a:t", 2500, 60) +
                                self.timed("//a:u", 12340, 300)),
            ["   12.3 s of  300 s  //a:u", "    2.5 s of   60 s  //a:t"])

    def test_a_test_near_its_limit_is_marked(self):
        self.assertEqual(
            count_cases.slowest(self.timed("//a:t", 12001, 60)),
            ["   12.0 s of   60 s  //a:t  (more than a fifth)"])
        self.assertEqual(count_cases.slowest(self.timed("//a:t", 12000, 60)),
                         ["   12.0 s of   60 s  //a:t"])

    def test_the_longest_shard_counts(self):
        self.assertEqual(
            count_cases.slowest(self.timed("//a:t", 3000, 60) +
                                self.timed("//a:t", 2000, 60, shard=2)),
            ["    3.0 s of   60 s  //a:t"])

    def test_ten_lines_of_a_second_or_more_are_enough(self):
        events = [event for i in range(12)
                  for event in self.timed(f"//a:t{i}", 1000 + i, 60)]
        self.assertEqual(len(count_cases.slowest(events)), 10)
        self.assertEqual(count_cases.slowest(self.timed("//a:t", 999, 60)), [])


if __name__ == "__main__":
    unittest.main()
