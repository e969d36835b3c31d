"""A disk that fails, stalls or answers from a stale cache: faulty_disk.cc put
under the processes that a test starts."""

import contextlib
import os
import shutil

import harness

_LIBRARY = harness.ROOT / "tests/process/faulty_disk.so"


class FaultyDisk:
    """Sound until a test says otherwise. What a line of faults can be stands
    at the head of faulty_disk.cc; `env` is the environment of the processes
    that use this disk."""

    def __init__(self):
        # A copy of its own: the faults lie beside it.
        self._library = harness.scratch() / _LIBRARY.name
        shutil.copy(_LIBRARY, self._library)
        self._faults = self._library.with_name(_LIBRARY.name + ".faults")
        self.env = dict(
            os.environ, LD_PRELOAD=str(self._library),
            # It comes before the sanitizer's library, and needs none.
            ASAN_OPTIONS=(os.environ.get("ASAN_OPTIONS", "") +
                          ":verify_asan_link_order=0"))

    def set(self, *lines):
        """From now on these faults and no others."""
        new = self._faults.with_name("new")
        new.write_text("".join(line + "\n" for line in lines))
        new.replace(self._faults)

    def heal(self):
        self.set()

    @contextlib.contextmanager
    def faults(self, *lines):
        """These, for as long as the block takes."""
        self.set(*lines)
        try:
            yield
        finally:
            self.heal()
