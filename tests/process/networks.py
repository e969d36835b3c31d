"""Hosts on this machine: processes in network namespaces."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import unittest

_CLONE_NEWNET = 0x40000000
_CLONE_NEWUSER = 0x10000000
_IP = shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin")
_LIBC = ctypes.CDLL(None, use_errno=True)
# A hardware address that no link has.
_NOBODY = "02:00:00:00:00:01"


def _check(result, what):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def _open_own():
    return os.open("/proc/self/ns/net", os.O_RDONLY)


class Networks:
    """A network namespace for each of `names`, as if each were a host. Each
    has an address and a link to a bridge in this process's namespace, which is
    a new one as well. Use as a context manager. Skips the test if the system
    does not allow namespaces."""

    def __init__(self, names):
        if _IP is None:
            raise unittest.SkipTest("SKIPPED: no ip (iproute2)")
        self._before = _open_own()
        try:
            self._unshare()
        except OSError as error:
            raise unittest.SkipTest(f"SKIPPED: network namespaces: {error}")
        self._bridge = _open_own()
        self._spaces = {}
        try:
            self._ip("link set lo up", "link add parts type bridge",
                     "addr add 10.78.0.1/24 dev parts", "link set parts up")
            for number, name in enumerate(names, start=2):
                self._add(name, number)
        except BaseException:
            self.__exit__()
            raise

    def _unshare(self):
        if os.geteuid() == 0 and _LIBC.unshare(_CLONE_NEWNET) == 0:
            return
        uid, gid = os.geteuid(), os.getegid()
        _check(_LIBC.unshare(_CLONE_NEWUSER | _CLONE_NEWNET), "unshare")
        for name, text in [("setgroups", "deny"), ("uid_map", f"0 {uid} 1"),
                           ("gid_map", f"0 {gid} 1")]:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)

    def _add(self, name, number):
        _check(_LIBC.unshare(_CLONE_NEWNET), "unshare")
        self._spaces[name] = _open_own()
        self._enter(self._bridge)
        self._ip(f"link add part{number} type veth peer name eth0 netns "
                 f"/proc/{os.getpid()}/fd/{self._spaces[name]}",
                 f"link set part{number} master parts up")
        with self.within(name):
            self._ip("link set lo up",
                     f"addr add {self.address(name)}/24 dev eth0",
                     "link set eth0 up")

    def _enter(self, space):
        _check(_LIBC.setns(space, _CLONE_NEWNET), "setns")

    def _ip(self, *lines):
        subprocess.run([_IP, "-batch", "-"], input="\n".join(lines) + "\n",
                       text=True, check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._enter(self._before)
        for space in [self._before, self._bridge, *self._spaces.values()]:
            os.close(space)

    def address(self, name):
        return f"10.78.0.{list(self._spaces).index(name) + 2}"

    @contextlib.contextmanager
    def within(self, name):
        """Processes started in this block run on that host."""
        self._enter(self._spaces[name])
        try:
            yield
        finally:
            self._enter(self._bridge)

    def cut(self, these, others):
        """Silently drops everything between these hosts and those. They still
        reach all others."""
        self._neighbours(these, others,
                         "neigh replace {} lladdr " + _NOBODY +
                         " nud permanent dev eth0")

    def heal(self, these, others):
        self._neighbours(these, others, "neigh del {} dev eth0")

    def _neighbours(self, these, others, command):
        for here, there in [(these, others), (others, these)]:
            for name in here:
                with self.within(name):
                    self._ip(*(command.format(self.address(other))
                               for other in there))
