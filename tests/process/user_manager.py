"""systemd itself, as the manager of a user's units, on a machine that was not
started by one: a process with a cgroup and a mount namespace of its own."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import harness

# What systemd wants to see before it serves a user.
BOOTED = "mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec"


def cgroups():
    """Where systemd's hierarchy is mounted: cgroup v2, or v1's of its name."""
    root = pathlib.Path("/sys/fs/cgroup")
    return next(folder for folder in (root, root / "systemd", root / "unified")
                if (folder / "cgroup.procs").exists())


class UserManager:
    """With units, a dict of texts by name. Needs root."""

    def __init__(self, units):
        # A socket's path has at most 107 characters: not in the test's folder.
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sluice-"))
        self.cgroup = cgroups() / self.dir.name
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(self.dir),
                    "XDG_CONFIG_HOME": str(self.dir)}
        folder = self.dir / "systemd/user"
        folder.mkdir(parents=True)
        for name, text in units.items():
            (folder / name).write_text(text)

    def __enter__(self):
        self.cgroup.mkdir()
        enter = f"echo $$ > {self.cgroup}/cgroup.procs && {BOOTED} "
        self.process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c",
             enter + "/usr/lib/systemd/systemd --user"],
            env=self.env, stdin=subprocess.DEVNULL)
        harness.wait_until(
            lambda: self.show("default.target", "ActiveState") == "active",
            "systemd to run", self.process)
        return self

    def __exit__(self, *_):
        self.run("stop", "sluice-*")
        self.process.terminate()
        self.process.wait()
        for folder, _, _ in os.walk(self.cgroup, topdown=False):
            harness.wait_until(lambda: not pathlib.Path(
                folder, "cgroup.procs").read_text(), f"{folder} to be empty")
            os.rmdir(folder)
        shutil.rmtree(self.dir)

    def run(self, *words):
        return subprocess.run(["systemctl", "--user", *words], env=self.env,
                              capture_output=True, text=True,
                              timeout=harness.TIMEOUT_S)

    def do(self, *words):
        result = self.run(*words)
        if result.returncode != 0:
            raise AssertionError(f"systemctl {words}: {result.stderr}")

    def show(self, unit, name):
        """A property of a unit: show("x.service", "NRestarts"). Empty where
        systemd does not answer."""
        return self.run("show", "--value", f"--property={name}",
                        unit).stdout.strip()
