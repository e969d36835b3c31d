"""A fuzz target, and the test that runs its corpus."""

load("//bazel:defs.bzl", "sluice_cc_binary", "sluice_cc_library", "sluice_cc_test")

def sluice_fuzz_target(name, deps):
    """`name`_fuzz.cc and corpus/`name`, as two targets.

    `name`_fuzz is the fuzzer; it links under --config=fuzz only.
    `name`_corpus_test runs each input of the corpus once, with any compiler.
    """
    sluice_cc_library(
        name = name + "_target",
        testonly = True,
        srcs = [name + "_fuzz.cc"],
        alwayslink = True,
        deps = deps + [":fuzz_input"],
    )
    sluice_cc_binary(
        name = name + "_fuzz",
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name + "_target"],
    )
    sluice_cc_test(
        name = name + "_corpus_test",
        srcs = ["corpus_test.cc"],
        data = native.glob(["corpus/" + name + "/*"]),
        local_defines = [
            "SLUICE_FUZZ_CORPUS=\\\"tests/fuzz/corpus/%s\\\"" % name,
        ],
        deps = [":" + name + "_target"],
    )
