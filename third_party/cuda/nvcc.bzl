"""Compiles .cu files by the machine's nvcc."""

load("@cuda//:toolkit.bzl", "TOOLKIT")

# Machine code for A100 and H100, and for what comes after them PTX, which the
# driver compiles when it loads it.
_TARGETS = (
    "-gencode arch=compute_80,code=sm_80 " +
    "-gencode arch=compute_90,code=[sm_90,compute_90]"
)

# Floats as the CPU device computes with them: denormal numbers count as zero,
# and no product and sum are contracted, so that an element's bits do not depend
# on whether the compiler chose to. Division and square root round correctly.
_NUMERICS = "-ftz=true -fmad=false -prec-div=true -prec-sqrt=true"

_FLAGS = "-std=c++20 -O3 -Werror all-warnings -Xcompiler -fPIC,-Wall,-Wextra"

# Intermediate files beside the object: in /tmp their names are those of another
# build's, since nvcc makes them of its process number, which starts anew in each
# sandbox.
_PLACES = "--objdir-as-tempdir"

def cuda_objects(name, srcs, hdrs):
    """A cc_library `name` of `srcs`, nothing without a toolkit.

    Args:
      name: of the library.
      srcs: .cu files of this package.
      hdrs: what they include besides CUDA, also of other packages.
    """
    if TOOLKIT == None:
        return
    for src in srcs:
        native.genrule(
            name = src + "_object",
            srcs = [src] + hdrs,
            outs = [src.replace(".cu", ".pic.o")],
            cmd = "%s/bin/nvcc -c -I. %s %s %s %s -o $@ $(location %s)" % (
                TOOLKIT,
                _PLACES,
                _FLAGS,
                _NUMERICS,
                _TARGETS,
                src,
            ),
        )
    native.cc_library(
        name = name,
        srcs = [src.replace(".cu", ".pic.o") for src in srcs],
        visibility = ["//visibility:private"],
    )
