"""A disk that fails, stalls or answers from a stale cache: puts faulty_disk.cc
under the processes that a test starts."""

import contextlib
import os
import shutil

import harness

_LIBRARY = harness.ROOT / "tests/process/faulty_disk.so"
# For processes that preload this library or another. What is preloaded comes
# before the sanitizer's library, and does not need it. The sanitizer would open
# its log before this library can work, so its reports go to stderr instead.
ASAN_OPTIONS = (os.environ.get("ASAN_OPTIONS", "") +
                ":verify_asan_link_order=0:log_path=stderr")


class FaultyDisk:
    """Works until a test sets faults. faulty_disk.cc describes their syntax.
    `env` is the environment of processes that use this disk."""

    def __init__(self):
        # A copy for this disk, because the faults are in a file beside the
        # library.
        self._library = harness.scratch() / _LIBRARY.name
        shutil.copy(_LIBRARY, self._library)
        self._faults = self._library.with_name(_LIBRARY.name + ".faults")
        self.env = dict(os.environ, LD_PRELOAD=str(self._library),
                        ASAN_OPTIONS=ASAN_OPTIONS)

    def set(self, *lines):
        """Replaces all faults."""
        new = self._faults.with_name("new")
        new.write_text("".join(line + "\n" for line in lines))
        new.replace(self._faults)

    def heal(self):
        self.set()

    @contextlib.contextmanager
    def faults(self, *lines):
        """Sets these faults during the block."""
        self.set(*lines)
        try:
            yield
        finally:
            self.heal()
