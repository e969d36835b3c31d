"""The project's own C++ rules: every target gets the same warnings."""

_COPTS = [
    "-Wall",
    "-Wextra",
    "-Wno-sign-compare",
    "-Wno-unused-parameter",
    "-Werror",
]

# What only tests use includes what tests include, so that is parsed in advance.
_TEST_HEADERS = ["-include", "bazel/test_headers.h"]
_UNOPTIMISED_TEST_HEADERS = ["-include", "bazel/unoptimised_test_headers.h"]

def sluice_cc_library(name, copts = [], deps = [], testonly = False, **kwargs):
    if testonly:
        copts = copts + _TEST_HEADERS
        deps = deps + ["//bazel:test_headers"]
    native.cc_library(
        name = name,
        copts = _COPTS + copts,
        testonly = testonly,
        deps = deps,
        **kwargs
    )

def sluice_cc_binary(name, copts = [], **kwargs):
    native.cc_binary(
        name = name,
        copts = _COPTS + copts,
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
    if _computes(name):
        copts = copts + _TEST_HEADERS
        deps = deps + ["//bazel:test_headers"]
    else:
        copts = copts + UNOPTIMISED + _UNOPTIMISED_TEST_HEADERS
        deps = deps + ["//bazel:unoptimised_test_headers"]
    native.cc_test(
        name = name,
        size = size,
        copts = _COPTS + copts,
        deps = deps + ["//third_party:gtest_main"] + select({
            "//third_party:tsan": ["//third_party:tsan_libraries"],
            "//conditions:default": [],
        }),
        **kwargs
    )
