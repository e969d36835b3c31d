#!/usr/bin/python3 -B
"""Breaks each rule a little and expects the unit tests to notice.

The sources of a pure core and its tests are copied and compiled without
optimisation. Then one mutation at a time is applied, the sources that depend
on it are compiled again, and the tests must fail. Prints a table of rule,
mutation, and the test that caught it. Then it prints a table of the
guarantees: the tests that hold each, and how many of its rules were broken and
caught. A mutation whose text is not found exactly once is an error, because
the list has to follow the code.

caught.tsv records which test caught each mutation. If neither the mutated file
nor the test's file has changed since, the mutation is not tried again; --anew
tries all.

Usage: run_mutations.py [--core=NAME] [--anew] [--record] [rule...]
Restricts the run to the cores of these names, and to the mutations whose rule
contains one of the words given, which are then tried in any case. --record
writes the results to caught.tsv.
"""

import argparse
import concurrent.futures
import copy
import dataclasses
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

import coordinator_mutations
import exchange_mutations
import guarantees
import mutation
import record
import recovery_mutations

ROOT = (pathlib.Path(os.environ["TEST_SRCDIR"]) / os.environ["TEST_WORKSPACE"]
        if "TEST_SRCDIR" in os.environ
        else pathlib.Path(__file__).resolve().parents[2])
CORES = {"coordinator": coordinator_mutations.COORDINATOR,
         "exchange": exchange_mutations.EXCHANGE,
         "recovery": recovery_mutations.RECOVERY}
FLAGS = ["-std=c++20", "-O0", "-w", "-MMD", "-I."]
LIBRARIES = [
    "-lgtest_main", "-lgmock", "-lgtest", "-labsl_statusor", "-labsl_status",
    "-labsl_cord", "-labsl_cordz_info", "-labsl_cord_internal",
    "-labsl_raw_hash_set", "-labsl_hashtablez_sampler", "-labsl_time",
    "-labsl_time_zone", "-labsl_civil_time", "-labsl_hash", "-labsl_city",
    "-labsl_low_level_hash", "-labsl_str_format_internal", "-labsl_strings",
    "-labsl_strings_internal", "-labsl_bad_optional_access",
    "-labsl_bad_variant_access", "-labsl_int128", "-labsl_throw_delegate",
    "-labsl_raw_logging_internal", "-labsl_base", "-lxxhash", "-lpthread"]
# Headers that nearly every source includes are precompiled, which halves
# compile time.
PRECOMPILED = """
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
"""
# A mutant that computes for this long hangs: the unchanged tests take 20 s. CPU
# time counts, so that other programs on the machine do not matter.
TEST_CPU_S = 60
# One that waits for what never comes takes none. By the wall clock, so long that
# other programs on the machine do not matter.
TEST_WALL_S = 20 * TEST_CPU_S
WORKERS = os.cpu_count() or 1


@dataclasses.dataclass
class Result:
    mutation: mutation.Mutation
    caught_by: str = ""
    error: str = ""


class Build:
    """A copy of a core's sources, with its objects and its test program."""

    def __init__(self, core, folder):
        self.core = core
        self.folder = folder
        self.sources = core.sources
        headers = [h.relative_to(ROOT).as_posix() for pattern in core.headers
                   for h in ROOT.glob(pattern)]
        written = [s for s in core.sources if not s.endswith(".pb.cc")]
        for file in [*written, *headers]:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, folder / file)
        for proto in core.protos:
            made = self.run(["protoc", f"-I{ROOT}", "--cpp_out=.", proto])
            if made.returncode != 0:
                sys.exit(made.stderr)
        self.precompiled = folder.parent / "precompiled.h"
        self.precompiled.write_text(PRECOMPILED)
        self.flags = [*FLAGS, *core.flags]
        self.run(["g++", *self.flags, "-x", "c++-header", self.precompiled])

    def copy(self, folder):
        shutil.copytree(self.folder, folder)
        other = copy.copy(self)
        other.folder = folder
        return other

    def compile(self, source):
        return self.run(["g++", *self.flags, "-include", self.precompiled, "-c",
                         source, "-o", self.object(source)])

    def compile_all(self):
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            for source, result in zip(self.sources,
                                      pool.map(self.compile, self.sources)):
                if result.returncode != 0:
                    sys.exit(f"{source} does not compile:\n{result.stderr}")

    def dependents(self, file):
        """The sources that must be compiled again when `file` changes."""
        return [s for s in self.sources if s == file or file in
                (self.folder / self.object(s)).with_suffix(
                    ".d").read_text().split()]

    def link(self):
        # Gold links in a third of the time.
        return self.run(["g++", "-fuse-ld=gold", "-o", "tests.bin",
                         *map(self.object, self.sources),
                         *self.core.libraries, *LIBRARIES])

    def test(self, only="*"):
        """The name of a failed test among those that `only` names; "" if they
        pass."""
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        # Concurrent tests must not write the same files.
        try:
            done = self.run([
                "bash", "-c", f"ulimit -S -t {TEST_CPU_S}; "
                f"TEST_TMPDIR={self.folder} "
                f"exec ./tests.bin --gtest_fail_fast --gtest_filter='{only}' "
                f"--gtest_output=xml:{report}"], timeout=TEST_WALL_S)
        except subprocess.TimeoutExpired as error:
            output = (error.stdout or b"").decode(errors="replace")
            return f"{self.running(output)} (hangs)"
        if done.returncode == 0:
            return ""
        if not report.exists():
            how = "hangs" if done.returncode == -signal.SIGXCPU else "aborts"
            return f"{self.running(done.stdout)} ({how})"
        for case in ET.parse(report).iter("testcase"):
            if case.find("failure") is not None:
                return f"{case.get('classname')}.{case.get('name')}"
        return "(fails)"

    def run(self, command, timeout=None):
        return subprocess.run(command, cwd=self.folder, capture_output=True,
                              text=True, timeout=timeout)

    @staticmethod
    def running(output):
        started = re.findall(r"\[ RUN +\] (\S+)", output)
        return started[-1] if started else "?"

    @staticmethod
    def object(source):
        return source.replace("/", "_").replace(".cc", ".o")


def try_mutation(build, clean, mutation, likely):
    """Breaks the rule. `likely` is the test that caught it before, or ""."""
    path = build.folder / mutation.file
    original = path.read_text()
    found = original.count(mutation.before)
    if found != 1:
        return Result(mutation, error=f"its text occurs {found} times in "
                      f"{mutation.file}, expected once")
    sources = build.dependents(mutation.file)
    try:
        path.write_text(original.replace(mutation.before, mutation.after))
        for source in sources:
            compiled = build.compile(source)
            if compiled.returncode != 0:
                return Result(mutation, error="does not compile: "
                              + compiled.stderr[:500])
        linked = build.link()
        if linked.returncode != 0:
            return Result(mutation, error=linked.stderr[:500])
        first = likely and build.test(likely.split(" ")[0])
        return Result(mutation, caught_by=first or build.test())
    finally:
        path.write_text(original)
        for source in sources:
            name = build.object(source)
            shutil.copy(clean.folder / name, build.folder / name)


def try_all(core, mutations, known, folder):
    """Builds the core in `folder` and tries each of its `mutations`."""
    clean = Build(core, folder / "clean")
    clean.compile_all()
    linked = clean.link()
    if linked.returncode != 0:
        sys.exit(f"the unchanged tests do not link:\n{linked.stderr[:2000]}")
    builds = queue.Queue()
    for index in range(WORKERS):
        builds.put(clean.copy(folder / f"mutants{index}"))

    def work(mutation):
        build = builds.get()
        try:
            return try_mutation(build, clean, mutation, known.test_of(mutation))
        finally:
            builds.put(build)

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        unchanged = pool.submit(clean.test)
        results = list(pool.map(work, mutations))
    if unchanged.result():
        sys.exit(f"the unchanged tests fail: {unchanged.result()}")
    return results


def print_guarantees(results):
    """Prints the tests and rules of each guarantee. Returns the rules that
    belong to none."""
    by_rule = {r.mutation.rule: r for r in results}
    known = {m.rule for core in CORES.values() for m in core.mutations}
    print("\n| guarantee | through the daemons | by the core's tests | "
          "mutations caught |\n| --- | --- | --- | --- |")
    unknown = []
    for g in guarantees.GUARANTEES:
        found = [by_rule[rule] for rule in g.rules if rule in by_rule]
        unknown += [rule for rule in g.rules if rule not in known]
        caught = [r for r in found if r.caught_by and not r.error]
        tests = sorted({re.split("[. ]", r.caught_by)[0] for r in caught})
        print(f"| {g.number}. {g.name} | {', '.join(g.daemons)} | "
              f"{', '.join(tests)} | {len(caught)} of {len(g.rules)} |")
    return unknown


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--core", action="append", choices=CORES)
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("rule", nargs="*")
    args = parser.parse_args()
    for word in args.rule:
        if not any(word in m.rule for name in args.core or CORES
                   for m in CORES[name].mutations):
            parser.error(f"expected a part of a rule, got {word!r}")
    known = record.Record(ROOT)
    results = []
    tried = 0
    for name in args.core or CORES:
        core = CORES[name]
        wanted = [m for m in core.mutations
                  if not args.rule or any(w in m.rule for w in args.rule)]
        changed = [m for m in wanted if args.anew or args.rule
                   or not known.holds(core, m)]
        tried += len(changed)
        results += [Result(m, caught_by=known.test_of(m)) for m in wanted
                    if m not in changed]
        if changed:
            with tempfile.TemporaryDirectory() as folder:
                results += try_all(core, changed, known, pathlib.Path(folder))
        for result in results if args.record else []:
            if result.mutation in changed and result.caught_by:
                known.keep(core, result.mutation, result.caught_by)
        if args.record:  # After each core: a later one may not even compile.
            known.write([m for c in CORES.values() for m in c.mutations])
    order = {id(m): i for i, m in enumerate(
        m for core in CORES.values() for m in core.mutations)}
    results.sort(key=lambda r: order[id(r.mutation)])
    print("| rule | mutation | caught by |\n| --- | --- | --- |")
    for r in results:
        print(f"| {r.mutation.rule} | {r.mutation.what} | "
              f"{r.error or r.caught_by or 'NOT CAUGHT'} |")
    bad = [r for r in results if r.error or not r.caught_by]
    unknown = [] if args.rule else print_guarantees(results)
    for rule in unknown:
        print(f"guarantees.py names a rule without a mutation: {rule}")
    print(f"{len(results) - len(bad)} of {len(results)} mutations caught; "
          f"{tried} tried, the others as recorded")
    sys.exit(1 if bad or unknown or not results else 0)


if __name__ == "__main__":
    main()
