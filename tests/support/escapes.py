"""Code that tries to outlive the process it runs in, and finding what it left."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.support import planes

ESCAPE = """
import subprocess

def escape(word):
    # In its own session, with another parent, and with an empty environment.
    subprocess.run(["sh", "-c", f"setsid -f env -i sleep {word} </dev/null >/dev/null 2>&1"], check=True)
"""


def new_word() -> str:
    """A duration that no other process sleeps: the mark of an escaped one."""
    return f"90000.{secrets.randbelow(10**9):09d}"


def sleeping(word: str) -> list[int]:
    """The pids of the escaped processes of this word."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                words = Path(entry.path, "cmdline").read_bytes().split(b"\0")
                if words[:2] == [b"sleep", word.encode()]:
                    found.append(int(entry.name))
    return found


def end(word: str) -> None:
    """For tests that fail."""
    for pid in sleeping(word):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def groups_of(data_dir: Path) -> list[str]:
    """The names of the cgroups of this data dir."""
    from mizzen.confinement.cgroups import search

    return [group.name for group in search.groups_anywhere(search.prefix_of(str(data_dir.resolve())))]


def up_without_groups(data_dir: Path) -> None:
    """Starts a plane where no cgroup can be seen, as in many containers and for ordinary users."""
    flags, program = " ".join(planes.FREE_PORTS), Path(sys.executable).with_name("mizzen")
    command = f"mount -t tmpfs none /sys/fs/cgroup && exec {program} up {flags}"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MIZZEN_")}
    environ |= {"MIZZEN_DATA_DIR": str(data_dir)}
    subprocess.run(
        ["unshare", "--mount", "sh", "-c", command], check=True, env=environ, cwd=data_dir.parent, timeout=120
    )


def can_hide_groups() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
