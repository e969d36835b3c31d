#!/usr/bin/python3 -B
"""A model process whose user has made a mistake: faulty_model.py WHERE, where
WHERE is "import", "prepare" or "compute"."""

import pathlib
import sys

sys.path.insert(
    0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))

from sluice import model_process  # pylint: disable=wrong-import-position


def prepare(_):
    if sys.argv[1] == "prepare":
        raise FileNotFoundError("no training data in /data")

    def compute(_):
        return 1 / 0

    return compute


if sys.argv[1] == "import":
    import no_such_library  # pylint: disable=import-error,unused-import
model_process.serve(prepare)
