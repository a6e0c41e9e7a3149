"""Where a plane keeps its files. The one place that knows their names."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

SOCKET_LIMIT = 107
"""Longest path of a unix socket, in bytes, on Linux."""

SOCKET_ROOM = 60
"""What the names of sockets add to the path of the run folder, at most."""


@dataclass(frozen=True, slots=True)
class Home:
    """The paths of one data dir. `run` is short enough that sockets can live in it."""

    data_dir: Path
    run: Path

    @classmethod
    def of(cls, data_dir: Path) -> Self:
        """Computes only. Links are resolved, so one folder has one Home by whatever path it is called."""
        root = data_dir.resolve()
        link = root / "run"
        name = f"mizzen-{os.getuid()}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"
        # An existing link wins over TMPDIR, which need not be the same in every process. One with another name came
        # here with a copied or moved folder and leads to a foreign plane.
        if link.is_symlink() and link.readlink().name == name:
            return cls(root, link.readlink())
        if _fits(link):
            return cls(root, link)
        short = Path(tempfile.gettempdir()) / name
        return cls(root, short if _fits(short) else Path("/tmp") / name)  # noqa: S108  its owner and mode are checked

    def prepare(self) -> None:
        """Makes the folders. The data dir and the run folder are nobody else's to read."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        link = self.data_dir / "run"
        if link.is_symlink() and link.readlink() != self.run:
            link.unlink()
        self.run.mkdir(mode=0o700, exist_ok=True)
        _check_private(self.run)
        if self.run != link and not link.is_symlink():
            link.symlink_to(self.run)
        for folder in (self.processes, self.sockets, self.logs):
            folder.mkdir(mode=0o700, exist_ok=True)

    @property
    def lock(self) -> Path:
        """Held (flock) by the living supervisor. Never removed: two files would be two locks."""
        return self.run / "supervisor.lock"

    @property
    def socket(self) -> Path:
        return self.run / "supervisor.sock"

    @property
    def info(self) -> Path:
        """Written when the supervisor is up, removed as the first act of a stop: a leftover means it was killed."""
        return self.run / "supervisor.json"

    @property
    def failure(self) -> Path:
        """{"message", "reason"}: why the last supervisor could not start. The reason is a word of `launch.Reason`."""
        return self.run / "failure.json"

    @property
    def boot(self) -> Path:
        return self.run / "boot.json"

    @property
    def processes(self) -> Path:
        return self.run / "processes"

    @property
    def sockets(self) -> Path:
        return self.run / "w"

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"

    @property
    def supervisor_log(self) -> Path:
        return self.logs / "supervisor.log"

    @property
    def ports(self) -> Path:
        return self.data_dir / "ports.json"


def write_json(path: Path, value: Any) -> None:
    """Replaces the file whole, readable by the owner only: whoever reads it sees the old or the new one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(value, file)
    fresh.replace(path)


def read_json(path: Path) -> Any:
    """The content, or None when the file is absent or, after a power loss, not JSON."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _fits(run: Path) -> bool:
    return len(os.fsencode(run)) + SOCKET_ROOM <= SOCKET_LIMIT


def _check_private(folder: Path) -> None:
    """A folder below a shared temporary directory may have been put there by somebody else."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not a folder of this user; remove it or set TMPDIR")
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)
