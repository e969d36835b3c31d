"""The project's own C++ rules: every target gets the same warnings."""

_COPTS = [
    "-Wall",
    "-Wextra",
    "-Wno-sign-compare",
    "-Wno-unused-parameter",
    "-Werror",
]

def _begin_with(headers):
    return ["-include", "bazel/%s.h" % headers]

# Gcc takes headers that were parsed for another -O, and crashes on some of what
# comes of it.
def _optimises_by_itself(copts):
    return bool([flag for flag in copts if flag.startswith("-O")])

def sluice_cc_library(name, copts = [], deps = [], testonly = False, **kwargs):
    headers = "test_headers" if testonly else "headers"
    if not _optimises_by_itself(copts):
        copts = copts + _begin_with(headers)
        deps = deps + ["//bazel:" + headers]
    native.cc_library(
        name = name,
        copts = _COPTS + copts,
        testonly = testonly,
        deps = deps,
        **kwargs
    )

def sluice_cc_binary(name, copts = [], deps = [], **kwargs):
    native.cc_binary(
        name = name,
        copts = _COPTS + copts + _begin_with("headers"),
        deps = deps + ["//bazel:headers"],
        **kwargs
    )

# Compiling a test without optimisation takes two thirds of the time. What it
# tests is in libraries, which are optimised.
UNOPTIMISED = ["-O0", "-U_FORTIFY_SOURCE"]

# Whether a test's own loops are long.
def _computes(name):
    package = native.package_name()
    return (package.split("/")[0] in ["kernels", "sim"] or
            package == "worker/model" or name.endswith("_exploration_test"))

def sluice_cc_test(name, deps = [], copts = [], size = "small", **kwargs):
    headers = "test_headers"
    if not _computes(name):
        headers = "unoptimised_test_headers"
        copts = copts + UNOPTIMISED
    native.cc_test(
        name = name,
        size = size,
        copts = _COPTS + copts + _begin_with(headers),
        deps = deps + ["//bazel:" + headers, "//third_party:gtest_main"] + select({
            "//third_party:tsan": ["//third_party:tsan_libraries"],
            "//conditions:default": [],
        }),
        **kwargs
    )
