"""The rules of the tree that a machine can check, each a pure function.

A rule takes a file's path and its lines, and yields (line number, complaint).
CONTRIBUTING.md gives the reasons for the rules.
"""

import re

# The folders of the tree that a folder may include, besides itself.
LAYERS = {
    "proto": set(),
    "common": {"proto"},
    "kernels": {"common"},
    "ps_server": {"proto", "common", "kernels"},
    "worker": {"proto", "common", "kernels"},
    "sim": {"proto", "common", "kernels", "ps_server", "worker"},
    "cli": {"proto", "common", "kernels", "ps_server", "worker", "sim"},
}
# A test may include both halves of the exchange; no file includes these
# folders.
LEAVES = {"bench", "cli", "tests"}

_INCLUDE = re.compile(r'#include "([a-z_]+)/')


def layers(path, lines):
    """Includes point one way."""
    folder = path.parts[0]
    allowed = LAYERS.get(folder)
    for number, line in enumerate(lines, 1):
        match = _INCLUDE.match(line)
        if not match or match[1] == folder:
            continue
        target = match[1]
        if target in LEAVES:
            yield number, f"nothing includes {target}/"
        elif target in LAYERS and allowed is not None and target not in allowed:
            yield number, f"{folder}/ does not include {target}/"


# Most lines of a file, even if one concept needs many.
_SIZES = {".h": 300, ".cuh": 300, ".cc": 600, ".cu": 600}
_FUNCTION_LINES = 70


def file_size(path, lines):
    limit = _SIZES.get(path.suffix)
    if limit is not None and len(lines) > limit:
        yield limit + 1, f"{len(lines)} lines, at most {limit}"


_NOT_A_FUNCTION = re.compile(
    r"(namespace|class|struct|enum|union|extern|constexpr|const|"
    r"INSTANTIATE_TEST_SUITE_P|SLUICE_AVX2_BEGIN)\b|[#/]")


def function_size(path, lines):
    """clang-format puts a function's signature and last brace in column 0."""
    if path.suffix not in (".cc", ".cu"):
        return
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith("}"):
            if start is not None and number - start + 1 > _FUNCTION_LINES:
                yield start, (f"a function of {number - start + 1} lines, "
                              f"at most {_FUNCTION_LINES}")
            start = None
        elif (start is None and re.match(r"[A-Za-z_]", line)
              and not _NOT_A_FUNCTION.match(line)):
            start = number
        elif start is not None and lines[number - 2].endswith(";") and (
                re.match(r"[A-Za-z_]", line)):
            start = number  # The lines before were a declaration.


_NOTE = re.compile(r"\b(TODO|FIXME|XXX)\b")  # Also in comments.

# What is banned, the files in which it is allowed, and what to do instead.
_BANNED = [
    (r"absl::Now\(|system_clock::now|steady_clock::now",
     r"common/clock\.cc", "time comes from common/clock.h"),
    (r"system_clock|ToChronoTime|FromChrono\(|GPR_CLOCK_REALTIME",
     r"common/clock\.cc|.*_test\.cc|.*_testing\.(cc|h)|bench/.*|tests/.*|"
     r"worker/exchange/fake_shard\.cc|third_party/.*",
     "a deadline goes by CLOCK_MONOTONIC: common/rpc/deadline.h"),
    (r"AwaitWith(Timeout|Deadline)|WaitWith(Timeout|Deadline)|"
     r"WhenWith(Timeout|Deadline)|NotificationWith(Timeout|Deadline)",
     r".*_test\.cc|.*_testing\.(cc|h)|bench/.*|tests/.*|"
     r"worker/exchange/fake_shard\.cc|third_party/.*",
     "waits for a point of the wall clock: common/await_for.h"),
    (r"absl::SleepFor|this_thread::sleep|\busleep\(",
     r"$^", "wait for a condition with a deadline"),
    (r"\bsrand\(|\brand\(\)|std::random_device|std::\w+_distribution\b",
     r".*_test\.cc", "randomness comes from common/random.h"),
    (r"\bvolatile\b", r"kernels/numerics_test\.cc|bench/.*",
     "not for threads: std::atomic or a mutex"),
    # oneDNN's ceiling of a machine, which its other users set so, too.
    (r"\bgetenv\(", r"kernels/cpu/cpu_device\.cc",
     "configuration is the job file and flags"),
    (r"(?<!static_)\bassert\(", r"$^", "SLUICE_CHECK for our bugs, a Status "
     "for everybody else's"),
    (_NOTE, r"$^", "an issue, not a note in the code"),
    (r"std::(cerr|cout)|\bf?printf\(",
     r"(cli|bench|tests)/.*|.*main\.cc|.*flags\.cc|"
     r"worker/reference/reference_train\.cc|common/status_macros\.h",
     "only the tool prints"),
    (r"\bTEST(_[FP])?\(\w+, Basic\w*\)", r"$^",
     "a test's name is a sentence about behaviour"),
    (r"\bcatch \(\.\.\.\)", r"$^", "name what is caught"),
    (r"istreambuf_iterator", r".*_test\.cc|.*_testing\.(cc|h)|.*/testing/.*",
     "throws when a read fails: istream::read"),
    # A call that goes on in the next line is not looked at.
    (r"filesystem::(exists|is_\w+|absolute|canonical|file_size|create_\w+|"
     r"remove\w*|rename|copy\w*|read_symlink|resize_file|status)\("
     r"(?!.*\b(error|ignored|not_empty)\)).*[^,(]$",
     r".*_test\.cc|.*_testing\.(cc|h)|.*/testing/.*|bench/.*|tests/.*",
     "throws: give it an error_code"),
    (r"\.dump\(",
     r"common/(telemetry/json_text|formats/safetensors_header)\.cc|"
     r"cli/plot/figure\.cc|.*_test\.cc|bench/.*",
     "throws at bytes that are no UTF-8: common/telemetry/json_text.h"),
]


def banned(path, lines):
    if path.suffix not in (".h", ".cc", ".cu", ".cuh"):
        return
    for number, line in enumerate(lines, 1):
        code = line if _NOTE.search(line) else re.sub(r"//.*", "", line)
        for pattern, allowed, instead in _BANNED:
            if re.search(pattern, code) and not re.fullmatch(
                    allowed, path.as_posix()):
                yield number, f"{line.strip()}: {instead}"



def guard(path, lines):
    """A header's guard is its path."""
    if path.suffix != ".h":
        return
    expected = "SLUICE_" + re.sub(r"[/.]", "_", path.as_posix()).upper() + "_"
    if len(lines) < 2 or lines[:2] != [f"#ifndef {expected}",
                                       f"#define {expected}"]:
        yield 1, f"the guard is not {expected}"


_LOGGING = re.compile(r'#include "(spdlog|third_party/spdlog)')
_PURE = re.compile(r"kernels/|sim/|worker/(model|data)/|ps_server/decisions/|"
                   r"ps_server/coordinator/(core|members|policy|versions)/")
_SHELL = re.compile(r'#include (<thread>|<mutex>|"absl/synchronization/|'
                    r'"grpcpp/|<grpc)')


def pure_core(path, lines):
    """Code that decides or computes does not log. Apart from the kernels' own
    threads it has no thread, lock or socket."""
    if not _PURE.match(path.as_posix()) or path.name.endswith("_test.cc"):
        return
    for number, line in enumerate(lines, 1):
        if _LOGGING.match(line) or (_SHELL.match(line)
                                    and path.parts[0] != "kernels"):
            yield number, f"{line}: not in the pure core"


def types(text):
    """The types that a source defines for all others, each with its namespace.

    What is nested in a type or in a namespace without a name is its own.
    """
    spaces = []
    for line in text.splitlines():
        if match := re.match(r"namespace ?([\w:]*) ?\{", line):
            spaces.append(match[1])
        elif re.match(r"\}  // namespace", line):
            spaces.pop()
        elif match := re.match(
                r"(?:struct|class|enum class|enum) (\w+)(?: final)?"
                r"(?: : [^;]*)? \{", line):
            if "" not in spaces:
                yield "::".join([*spaces, match[1]])


RULES = [layers, file_size, function_size, banned, guard, pure_core]
