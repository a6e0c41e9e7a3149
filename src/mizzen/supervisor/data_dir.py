"""Paths of a plane's files. Only this module knows their names."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

SOCKET_LIMIT = 107
"""Maximum length of a unix socket path on Linux, in bytes."""

SOCKET_ROOM = 60
"""Maximum number of bytes that socket names add to the path of the run folder."""


_KEY_BYTES = 32


class UnusableHome(Exception):
    """The folders cannot be used, or are not safe to use; `hint` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Home:
    """The paths of one data dir. `run` is short enough that sockets can live in it."""

    data_dir: Path
    run: Path

    @classmethod
    def of(cls, data_dir: Path) -> Self:
        """Computes the paths and writes nothing. Resolves links, so that all paths of one folder give the same Home."""
        root = data_dir.resolve()
        link = root / "run"
        name = f"mizzen-{os.getuid()}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"
        # An existing link wins over TMPDIR, which may differ between processes. A link with another name came with a
        # copied or moved folder and points to a different plane.
        if link.is_symlink() and link.readlink().name == name and link.readlink().is_absolute():
            return cls(root, link.readlink())
        if _fits(link):
            return cls(root, link)
        short = Path(tempfile.gettempdir()) / name
        return cls(root, short if _fits(short) else Path("/tmp") / name)  # noqa: S108  its owner and mode are checked

    def prepare(self) -> None:
        """Creates the folders. Only the owner can read the data dir and the run folder. Raises UnusableHome."""
        try:
            self._make()
        except OSError as error:
            raise UnusableHome(
                f"{self.data_dir} cannot be used as the data dir: {error.strerror}: {error.filename}",
                "name a folder that you can write to with --data-dir or MIZZEN_DATA_DIR",
            ) from error

    def check(self) -> None:
        """Checks the owner and mode of the run folder. Raises UnusableHome; an absent folder is fine.

        Call this before reading anything in the run folder or connecting to it. In a shared temporary directory, a
        cleanup may have removed our folder and any user may have created another. Its contents are trusted: clients
        send the admin's token to the ports that it names.
        """
        try:
            state = self.run.lstat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UnusableHome(
                f"{self.run} cannot be read: {error.strerror}",
                "check that this is your data dir; --data-dir names another one",
            ) from error
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
            fault = "is not a folder of this user"
        elif state.st_mode & 0o777 != 0o700:
            fault = f"is open to others (mode {state.st_mode & 0o777:o}, not 700)"
        else:
            return
        inside = self.run.parent == self.data_dir
        raise UnusableHome(
            f"{self.run} {fault}", "remove it" if inside else "remove it, or set TMPDIR to another folder"
        )

    @property
    def lock(self) -> Path:
        """The running supervisor holds it (flock). Never removed: two files would be two locks."""
        return self.run / "supervisor.lock"

    @property
    def socket(self) -> Path:
        return self.run / "supervisor.sock"

    @property
    def key(self) -> Path:
        """The key of `socket`: confined processes can connect, but they cannot read this."""
        return self.run / "supervisor.key"

    @property
    def info(self) -> Path:
        """Written when the supervisor is up, removed as the first step of a stop. A leftover means it was killed."""
        return self.run / "supervisor.json"

    @property
    def leaving(self) -> Path:
        """Exists during a stop that leaves lasting processes, until some process has finished that stop."""
        return self.run / "leaving"

    @property
    def failure(self) -> Path:
        """{"message", "reason"}: why the last supervisor could not start. The reason is a `launch.Reason`."""
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
    def pipes(self) -> Path:
        """The pipes that take the output of processes, by key."""
        return self.run / "pipes"

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"

    @property
    def supervisor_log(self) -> Path:
        return self.logs / "supervisor.log"

    @property
    def ports(self) -> Path:
        return self.data_dir / "ports.json"

    def _make(self) -> None:
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        link = self.data_dir / "run"
        if link.is_symlink() and link.readlink() != self.run:
            link.unlink()
        self.run.mkdir(mode=0o700, exist_ok=True)
        self.check()
        if self.run != link and not link.is_symlink():
            link.symlink_to(self.run)
        for folder in (self.processes, self.sockets, self.pipes, self.logs):
            folder.mkdir(mode=0o700, exist_ok=True)


def load_key(path: Path) -> str:
    """Returns the key in this file, or "" if there is none."""
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""


def load_or_create_key(path: Path) -> str:
    """Raises OSError."""
    key = load_key(path)
    if len(key) != 2 * _KEY_BYTES:
        key = secrets.token_hex(_KEY_BYTES)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(key)
        fresh.replace(path)
    return key


def write_json(path: Path, value: Any) -> None:
    """Replaces the file atomically, readable by the owner only: readers see either the old or the new content."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(value, file)
    fresh.replace(path)


def read_json(path: Path) -> Any:
    """Returns the parsed content, or None if the file is absent or, after a power loss, invalid."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _fits(run: Path) -> bool:
    return len(os.fsencode(run)) + SOCKET_ROOM <= SOCKET_LIMIT
