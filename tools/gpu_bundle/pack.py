#!/usr/bin/python3 -B
"""Packs what a machine with a GPU needs to test and measure Sluice into a folder.

    tools/gpu_bundle/pack.py FOLDER

Builds on this machine, which needs the CUDA toolkit but no GPU. FOLDER then
has run.py, programs.tar.xz (tests, daemons, tool and benchmarks, with the
shared libraries they were linked with) and the demo's images, at most 60 MB in
total. It can be copied to a machine that has only an NVIDIA driver, Python
3.8, glibc and libstdc++ of Debian 12 or newer, and cuBLAS and cuDNN from a
CUDA toolkit or from Python packages. There, run ./run.py --help
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).absolute().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from peers import programs  # noqa: E402

CUDA_OBJECT = "kernels/cuda/libsluice_cuda.so"
# In the order in which run.py takes them.
TESTS = [
    "kernels/cuda/cuda_object_test",
    "kernels/cuda/cuda_map_test",
    "kernels/cuda/cuda_recording_test",
    "kernels/cuda/cuda_linear_test",
    "kernels/cuda/cuda_batch_norm_test",
    "kernels/cuda/cuda_sequence_test",
    "kernels/cuda/cuda_vector_test",
    "kernels/cuda/cuda_attention_test",
    "worker/model/cuda_model_test",
    "worker/model/model_steps_test",
    "worker/model/recorded_model_test",
    "worker/model/loss_scale_test",
    "worker/model/gradient_array_test",
    "worker/model/weights_array_test",
]
PROGRAMS = ["bench/kernels", "bench/peers/one_worker", "cli/sluice",
            "ps_server/ps_server", "worker/evaluator", "worker/worker"]
SOURCES = ["bench/compute.py", "bench/overlap.py", "bench/report.py",
           "bench/torch_loop.py", "bench/train.py", "bench/peers/*.py",
           "configs/*.textproto", "python/sluice/*.py",
           "tests/process/fake_worker.py", "tests/process/harness.py",
           "tests/process/torch_memory_test.py"]
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
# A machine that runs programs of Debian 12 has these, or newer ones that its
# other programs need.
LEFT_OUT = re.compile(
    r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s))\.so")
MOST_BYTES = 60e6


def label(path):
    """Bazel's label for the target that is built at `path`."""
    folder, name = path.rsplit("/", 1)
    return f"//{folder}:{name}"


def needed(path):
    """Library -> its path on this machine, or None if it is not in the
    loader's folders."""
    printed = subprocess.run(["ldd", path.resolve()], check=True,
                             capture_output=True, text=True).stdout
    found = re.findall(r"^\t(\S+) => (?:(/\S+)|not found)", printed, re.M)
    return {name: place or None for name, place in found}


def libraries(paths):
    """The libraries to pack, and the names of those that belong to CUDA."""
    taken, of_cuda = {}, set()
    for path in paths:
        for name, place in needed(path).items():
            if name.startswith(("libcublas", "libcudnn")):
                of_cuda.add(name)
            elif LEFT_OUT.match(name):
                continue
            elif place is None:
                sys.exit(f"{path} needs {name}, which is not on this machine")
            else:
                taken[name] = place
    return taken, sorted(of_cuda)


def pack(folder):
    paths = {name: programs.built(name)
             for name in [*TESTS, *PROGRAMS, CUDA_OBJECT]}
    missing = [name for name, path in paths.items() if not path.is_file()]
    if missing:
        sys.exit(f"expected to be built, but are not: {', '.join(missing)}; "
                 "without a CUDA toolkit there is nothing to bundle")
    taken, of_cuda = libraries(paths.values())
    folder.mkdir(parents=True)
    with tarfile.open(folder / "programs.tar.xz", "w:xz", preset=3) as tar:
        for name, path in paths.items():
            tar.add(path.resolve(), name)
        for name, path in sorted(taken.items()):
            tar.add(pathlib.Path(path).resolve(), f"lib/{name}")
        for pattern in SOURCES:
            for path in sorted(ROOT.glob(pattern)):
                tar.add(path.resolve(), path.relative_to(ROOT))
    shutil.copy(ROOT / "tools/gpu_bundle/run.py", folder)
    shutil.copytree(IMAGES, folder / IMAGES.name)
    (folder / "contents.json").write_text(json.dumps(
        {"tests": TESTS, "cuda_libraries": of_cuda,
         "images": str(IMAGES)}, indent=1))


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*"))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="The rest is said at the top of this file.")
    parser.add_argument("folder", type=pathlib.Path, help="to make")
    parser.add_argument("--built", action="store_true",
                        help="take what is built, build nothing")
    args = parser.parse_args()
    if args.folder.exists():
        sys.exit(f"{args.folder} is there already")
    if not args.built:
        subprocess.run([ROOT / "sluice", "build",
                        *map(label, [*TESTS, *PROGRAMS, CUDA_OBJECT])],
                       check=True)
    pack(args.folder)
    bytes_ = size(args.folder)
    print(f"{args.folder}: {bytes_ / 1e6:.1f} MB")
    if bytes_ > MOST_BYTES:
        sys.exit(f"{bytes_ / 1e6:.1f} MB, expected at most "
                 f"{MOST_BYTES / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
