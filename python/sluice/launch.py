"""A program that starts its own worker: under torchrun, Slurm or by hand."""

import os
import sys

from sluice.model_process import SOCKET_VARIABLE

# What torchrun and srun say of the process's number among all.
NUMBER_VARIABLES = "RANK", "SLURM_PROCID"


def join(job: str | os.PathLike, *flags: str, worker: int | None = None,
         binary: str | os.PathLike = "worker") -> None:
    """Has this program take part in a run, wherever it was started:

        sluice.join("job.textproto", "--coordinator=hostA:7000")

    Where a worker or an evaluator has started the program, this does nothing.
    Elsewhere a worker takes the place of this process (exec: it has the same
    process id, environment and output, and whoever started this process sees
    the worker's exit status), and starts the program again as its model
    process. Call it first: the program runs again from its beginning.

    `flags` are further ones of the worker. `worker` is its number; unless it
    is given it is RANK (torchrun) or SLURM_PROCID, or else 0. `binary` is a
    path, or looked for on PATH. Exits, with a message, where it cannot be
    started.
    """
    # Worker() leaves it there, empty, for those that this program starts.
    if SOCKET_VARIABLE in os.environ:
        return
    if worker is None:
        worker = next((os.environ[name] for name in NUMBER_VARIABLES
                       if name in os.environ), 0)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(binary, [
            os.fspath(binary), f"--job={os.fspath(job)}", f"--worker={worker}",
            *flags, "--", sys.executable, *sys.orig_argv[1:]])
    except OSError as error:
        sys.exit(f"cannot start {os.fspath(binary)!r}: {error.strerror}; "
                 "expected Sluice's worker on PATH, or its path as `binary`")
