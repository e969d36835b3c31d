"""The project's own C++ rules: every target gets the same warnings."""

_COPTS = [
    "-Wall",
    "-Wextra",
    "-Wno-sign-compare",
    "-Wno-unused-parameter",
    "-Werror",
]

def sluice_cc_library(name, copts = [], **kwargs):
    native.cc_library(
        name = name,
        copts = _COPTS + copts,
        **kwargs
    )

def sluice_cc_binary(name, copts = [], **kwargs):
    native.cc_binary(
        name = name,
        copts = _COPTS + copts,
        **kwargs
    )

def sluice_cc_test(name, deps = [], copts = [], size = "small", **kwargs):
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
