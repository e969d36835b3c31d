"""Finds a CUDA toolkit on this machine, without requiring one."""

def _local_cuda_impl(repository_ctx):
    root = repository_ctx.path("/usr/local/cuda")
    found = root.get_child("bin").get_child("nvcc").exists
    repository_ctx.file("BUILD.bazel", "")
    repository_ctx.file("cuda.bzl", "CUDA_AVAILABLE = {}\n".format(found))

# `load("@local_cuda//:cuda.bzl", "CUDA_AVAILABLE")` is True where the toolkit
# is installed; without it the CUDA targets are left out of the build.
local_cuda = repository_rule(
    implementation = _local_cuda_impl,
    local = True,
)
