"""@cuda: the machine's CUDA toolkit, or an empty repository without one."""

# What the CUDA device is compiled and linked with, below the toolkit's folder.
_NEEDED = [
    "bin/nvcc",
    "include/cublasLt.h",
    "include/cuda_runtime_api.h",
    "include/cudnn.h",
    "lib64/libcublasLt.so",
    "lib64/libcudart_static.a",
    "lib64/libcudnn.so",
]

_FOUND = """
cc_library(
    name = "cuda",
    includes = ["include"],
    # Not the thousands of its C++ libraries.
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/*",
        "include/nv/**",
    ]),
    # The driver's library is loaded by the runtime when it is used.
    linkopts = [
        "-L{path}/lib64",
        "-Wl,-rpath,{path}/lib64",
        "-lcublasLt",
        "-lcudnn",
        "-lcudart_static",
        "-ldl",
        "-lpthread",
        "-lrt",
    ],
    visibility = ["//visibility:public"],
)
"""

def _local_cuda_impl(context):
    path = context.os.environ.get("CUDA_PATH", "/usr/local/cuda")
    missing = [
        name
        for name in _NEEDED
        if not context.path(path + "/" + name).exists
    ]
    if missing:
        context.file("BUILD.bazel", "# %s lacks %s.\n" % (path, ", ".join(missing)))
        context.file("toolkit.bzl", "TOOLKIT = None\n")
    else:
        context.symlink(path + "/include", "include")
        context.file("BUILD.bazel", _FOUND.format(path = path))
        context.file("toolkit.bzl", "TOOLKIT = \"%s\"\n" % path)

# `@cuda//:toolkit.bzl` says where the toolkit is: TOOLKIT, or None where any of
# the above is missing. A build that should do without one is given another
# folder: --repo_env=CUDA_PATH=/nowhere.
local_cuda = repository_rule(
    implementation = _local_cuda_impl,
    environ = ["CUDA_PATH"],
    local = True,
)
