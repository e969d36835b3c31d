#!/usr/bin/python3
"""Counts the test cases of one `bazel test`: "N passed, N failed".

Reads Bazel's build events (--build_event_json_file) instead of the folder of
results, which may have results of earlier calls. A test without XML counts as
one case, and a target that did not build as one failed case. The exit status is
1 if any case failed or none ran.

Before the count it prints the slowest tests with their limits. On a quiet
machine no test should take a fifth of its limit, so that it also passes on a
busy machine.
"""

import collections
import json
import sys
import urllib.parse
import xml.etree.ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# Number of slowest tests that are printed.
SLOWEST, LEAST_S = 10, 1
LARGEST_SHARE = 1 / 5


def cases_of_xml(text):
    """The number of cases of each outcome in a JUnit report."""
    counts = collections.Counter()
    for case in xml.etree.ElementTree.fromstring(text).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            counts[FAILED] += 1
        elif (case.find("skipped") is not None or
              case.get("status") == "notrun"):
            counts[SKIPPED] += 1
        else:
            counts[PASSED] += 1
    return counts


def cases_of_result(result, read):
    """The counts of one test's run. `read` returns the bytes of a path."""
    status = result["status"]
    counts = collections.Counter()
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.xml":
            path = urllib.parse.unquote(
                urllib.parse.urlparse(output["uri"]).path)
            try:
                counts = cases_of_xml(read(path))
            except (OSError, xml.etree.ElementTree.ParseError):
                pass
    # The process may also fail outside its cases: by a crash, or a leak found
    # at exit.
    if status not in ("PASSED", "FLAKY"):
        counts[FAILED] += not counts[FAILED]
    elif not counts:
        counts[PASSED] += 1
    return counts


def count(events, read):
    """The counts over all of one call's build events (dicts)."""
    tests, results, broken = set(), {}, set()
    for event in events:
        kind = event["id"]
        if "targetConfigured" in kind:
            if event.get("configured", {}).get("testSize"):
                tests.add(kind["targetConfigured"]["label"])
        elif "targetCompleted" in kind:
            if not event.get("completed", {}).get("success"):
                broken.add(kind["targetCompleted"]["label"])
        elif "testResult" in kind:
            name = kind["testResult"]
            # A later attempt replaces an earlier one.
            results[(name["label"], name.get("run"), name.get("shard"))] = (
                event.get("testResult", {"status": "NO_STATUS"}))
    counts = collections.Counter()
    for result in results.values():
        counts += cases_of_result(result, read)
    ran = {label for label, _, _ in results}
    counts[FAILED] += len((tests | broken) - ran)
    return counts


def summary(counts):
    line = f"{counts[PASSED]} passed, {counts[FAILED]} failed"
    return line + (f", {counts[SKIPPED]} skipped" if counts[SKIPPED] else "")


def slowest(events):
    """A line for each of the slowest tests, with its time and its limit."""
    limits, seconds = {}, {}
    for event in events:
        kind = event["id"]
        if "targetCompleted" in kind:
            limits[kind["targetCompleted"]["label"]] = int(
                event.get("completed", {}).get("testTimeoutSeconds", 0))
        elif "testResult" in kind:
            label = kind["testResult"]["label"]
            took = event.get("testResult", {}).get(
                "testAttemptDurationMillis", 0)
            # The limit applies to each shard.
            seconds[label] = max(seconds.get(label, 0), int(took) / 1000)
    lines = []
    for label in sorted(seconds, key=seconds.get, reverse=True)[:SLOWEST]:
        took, limit = seconds[label], limits.get(label, 0)
        if took < LEAST_S:
            break
        line = f"{took:7.1f} s of {limit:4d} s  {label}"
        lines.append(line + ("  (more than a fifth)" if limit and
                             took > limit * LARGEST_SHARE else ""))
    return lines


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    for line in slowest(events):
        print(line)
    counts = count(events, read_bytes)
    print(summary(counts))
    return 1 if counts[FAILED] or not counts[PASSED] else 0


if __name__ == "__main__":
    sys.exit(main())
