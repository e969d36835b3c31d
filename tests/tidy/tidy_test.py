#!/usr/bin/python3 -B
"""The tree keeps its own rules, and each rule notices when it is broken."""

import collections
import os
import pathlib
import subprocess
import unittest

import rules

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".proto", ".py", ".sh"}

# Files that break a rule, with the reason; the list only ever shrinks.
EXCEPTIONS = {}


def sources():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not f.startswith(
            (".", "bazel-", "third_party", "runs")))
        for name in sorted(files):
            path = pathlib.Path(folder, name)
            if path.suffix in SUFFIXES:
                yield path.relative_to(ROOT)


def complaints(rule, path, text):
    return list(rule(pathlib.PurePosixPath(path), text.splitlines()))


class TidyTest(unittest.TestCase):

    def test_every_source_keeps_every_rule(self):
        found, broken = [], set()
        count = 0
        for path in sources():
            count += 1
            text = (ROOT / path).read_text()
            for rule in rules.RULES:
                for number, what in complaints(rule, path, text):
                    if (path.as_posix(), rule.__name__) in EXCEPTIONS:
                        broken.add((path.as_posix(), rule.__name__))
                    else:
                        found.append(f"{path}:{number}: "
                                     f"{rule.__name__}: {what}")
        self.assertGreater(count, 300, "the tree was not found")
        self.assertEqual(found, [], "\n" + "\n".join(found))
        self.assertEqual(set(EXCEPTIONS), broken, "exceptions to remove")

    def test_a_type_has_one_definition(self):
        """Two of one name are undefined behaviour, which no linker notices."""
        defined = collections.defaultdict(set)
        for path in sources():
            if path.suffix in {".h", ".cc"}:
                for name in rules.types((ROOT / path).read_text()):
                    defined[name].add(path.as_posix())
        self.assertGreater(len(defined), 300, "the types were not found")
        twice = {name: sorted(paths) for name, paths in defined.items()
                 if len(paths) > 1}
        self.assertEqual(twice, {})

    def test_types_are_told_apart_by_their_namespaces(self):
        text = """namespace sluice {
struct A {
class B;
namespace {
class C final : public A {
}  // namespace
namespace testing {
struct A {
}  // namespace testing
enum class D { kOne };
}  // namespace sluice
namespace sluice::kernels {
class A {
"""
        self.assertEqual(list(rules.types(text)),
                         ["sluice::A", "sluice::testing::A", "sluice::D",
                          "sluice::kernels::A"])

    def test_an_include_against_the_layers_is_noticed(self):
        for path, include in [("kernels/a.cc", "proto/job.pb.h"),
                              ("common/a.h", "kernels/device.h"),
                              ("worker/a.cc", "ps_server/lead.h"),
                              ("ps_server/shard/a.cc", "worker/trainer.h"),
                              ("worker/a.cc", "cli/check.h")]:
            self.assertEqual(
                len(complaints(rules.layers, path, f'#include "{include}"\n')),
                1, path)
        self.assertEqual(
            complaints(rules.layers, "cli/a.cc",
                       '#include "worker/trainer.h"\n'), [])

    def test_sizes_are_noticed_one_line_above_the_limit(self):
        for path, limit in [("a/a.h", 300), ("a/a.cc", 600)]:
            self.assertEqual(
                complaints(rules.file_size, path, "\n" * limit), [])
            self.assertEqual(
                len(complaints(rules.file_size, path, "\n" * (limit + 1))), 1)
        for body, count in [(68, 0), (69, 1)]:
            text = ("int declared(int a);\n"
                    "absl::Status Foo(int a,\n" + "  b();\n" * body + "}\n")
            self.assertEqual(
                len(complaints(rules.function_size, "a/a.cc", text)), count)

    def test_banned_calls_are_noticed(self):
        for line in ["absl::Time t = absl::Now();", "absl::SleepFor(x);",
                     "std::uniform_real_distribution<float> u;",
                     "volatile int x;", 'getenv("HOME")', "assert(x);",
                     "// TODO: later", "// FIXME: later", "int x;  // XXX",
                     "std::cerr << x;", "} catch (...) {",
                     "TEST(FooTest, BasicUse) {",
                     "if (std::filesystem::exists(path)) {",
                     'out << json.dump(2) << "\\n";',
                     "std::string{std::istreambuf_iterator<char>(in), {}};"]:
            self.assertEqual(
                len(complaints(rules.banned, "common/a.cc", line)), 1, line)
        for line in ["static_assert(true);", "// As assert(x) would.",
                     "StrFormat(x);",
                     "if (std::filesystem::exists(path, error)) {"]:
            self.assertEqual(
                complaints(rules.banned, "common/a.cc", line), [], line)

    def test_a_guard_that_is_not_the_path_is_noticed(self):
        good = "#ifndef SLUICE_COMMON_IDS_H_\n#define SLUICE_COMMON_IDS_H_\n"
        self.assertEqual(complaints(rules.guard, "common/ids.h", good), [])
        self.assertEqual(len(complaints(rules.guard, "common/key.h", good)), 1)

    def test_a_log_or_a_lock_in_the_pure_core_is_noticed(self):
        for path, include in [
                ("kernels/cpu/a.cc", '"spdlog/spdlog.h"'),
                ("sim/a.cc", '"third_party/spdlog.h"'),
                ("ps_server/coordinator/policy/sync_policy.cc", "<mutex>"),
                ("ps_server/coordinator/core/coordinator_tasks.cc",
                 '"absl/synchronization/mutex.h"')]:
            self.assertEqual(
                len(complaints(rules.pure_core, path,
                               f"#include {include}\n")), 1, path)


class JobDocumentTest(unittest.TestCase):

    def test_it_is_what_the_comments_of_the_job_say(self):
        check = subprocess.run([ROOT / "docs/make_job_md.py", "--check"],
                               capture_output=True, text=True)
        self.assertEqual(check.returncode, 0, check.stderr)


if __name__ == "__main__":
    unittest.main()
