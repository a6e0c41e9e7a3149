"""Where this process may create groups: found by trying, in version 2 where it offers what is needed, else version 1.

With systemd, the supervisor's own group is delegated to it (`Delegate=yes`). Version 2 allows limits only in groups
whose parent has no processes, so the supervisor first moves itself and its starter to a group of their own, a leaf.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Self

CONTROLLERS = ("memory", "pids", "cpu")
LEAF = "mizzen-own"
_PROBE = "mizzen-probe"
_VERSION_1 = {"freezer.state", "memory.limit_in_bytes", "pids.max", "cpu.cfs_quota_us"}
_DELEGATED = ("user.delegate", "trusted.delegate")
"""Attributes by which systemd marks a delegated group."""


@dataclass(frozen=True, slots=True)
class Mount:
    folder: str
    root: str
    """The group that is mounted there."""
    controllers: frozenset[str]
    """Of version 1; empty: this is version 2."""


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The folders below which groups can be created."""

    kill: str = ""
    """In version 2, or of the freezer in version 1. Empty: descendants cannot be found by groups here."""
    limits: Mapping[str, str] = field(default_factory=dict)
    """By controller. In version 2 all are the same as `kill`."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The controllers that are not available."""
        return tuple(name for name in CONTROLLERS if name not in self.limits)

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Returns empty ones if the text is not valid."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return cls()


NO_HIERARCHIES = Hierarchies()


@cache
def detect() -> Hierarchies:
    """Tries each hierarchy, once."""
    mounts, own = read_mounts(), own_groups()
    return choose(mounts, own, usable)


@cache
def prepare() -> Hierarchies:
    """Like `detect`, for a supervisor: enables the limits of version 2 first, if its group is delegated to it."""
    mounts, own = read_mounts(), own_groups()
    for mount in mounts:
        folder = folder_of(mount, own)
        if folder and not mount.controllers:
            _enable_controllers(folder)
    return detect()


def choose(mounts: list[Mount], own: Mapping[str, str], accepts: Callable[[str], bool]) -> Hierarchies:
    """`own`: the groups of this process by controller; that of version 2 is under ""."""
    unified = next((folder for m in mounts if not m.controllers and (folder := folder_of(m, own))), "")
    if unified and not accepts(unified):
        unified = ""
    first: dict[str, str] = {}
    for mount in mounts:
        folder = folder_of(mount, own)
        for controller in sorted(mount.controllers) if folder else ():
            first.setdefault(controller, folder)
    limits = {name: first[name] for name in CONTROLLERS if name in first and accepts(first[name])}
    if unified:
        enabled = _read(os.path.join(unified, "cgroup.subtree_control")).split()
        limits = {name: unified for name in CONTROLLERS if name in enabled} | limits
    freezer = first.get("freezer", "")
    kill = unified or (freezer if freezer and accepts(freezer) else "")
    return Hierarchies(kill, limits if kill else {})


def read_mounts() -> list[Mount]:
    return list(parse_mounts(_read("/proc/self/mountinfo")))


def own_groups() -> dict[str, str]:
    return parse_own(_read("/proc/self/cgroup"))


def parse_mounts(text: str) -> Iterator[Mount]:
    """`text`: /proc/self/mountinfo."""
    for line in text.splitlines():
        head, _, tail = line.partition(" - ")
        fields, rest = head.split(), tail.split()
        if len(fields) < 5 or len(rest) < 3:
            continue
        folder = fields[4].replace("\\040", " ")
        if rest[0] == "cgroup2":
            yield Mount(folder, fields[3], frozenset())
        elif rest[0] == "cgroup":
            known = frozenset(rest[2].split(",")) & {*CONTROLLERS, "freezer"}
            if known:
                yield Mount(folder, fields[3], known)


def parse_own(text: str) -> dict[str, str]:
    """`text`: /proc/self/cgroup."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            found[""] = path
        for name in filter(None, names.split(",")):
            found[name] = path
    return found


def folder_of(mount: Mount, own: Mapping[str, str]) -> str:
    """The folder of this process's group in this hierarchy, above a leaf of ours; empty if it is not mounted there."""
    path = own.get(next(iter(sorted(mount.controllers)), ""))
    if path is None or "/.." in path:
        return ""
    if mount.root != "/":
        if path != mount.root and not path.startswith(f"{mount.root}/"):
            return ""
        path = path.removeprefix(mount.root)
    folder = os.path.join(mount.folder, path.strip("/")).rstrip("/")
    return os.path.dirname(folder) if os.path.basename(folder) == LEAF else folder


def usable(folder: str) -> bool:
    """Tries to create a group and to move a process into it."""
    probe = os.path.join(folder, f"{_PROBE}.{os.getpid()}")
    try:
        os.mkdir(probe)
    except OSError:
        return False
    try:
        known = set(os.listdir(probe))
        if "cgroup.controllers" in known:  # version 2
            return "cgroup.kill" in known and _can_join(probe)
        return bool(known & _VERSION_1) and _can_join(probe)
    except OSError:
        return False
    finally:
        with suppress(OSError):
            os.rmdir(probe)


def _can_join(folder: str) -> bool:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with open(os.path.join(folder, "cgroup.procs"), "w") as file:
                file.write("0")
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _enable_controllers(folder: str) -> None:
    """Allows limits in groups below this one, as far as possible."""
    offered = set(_read(os.path.join(folder, "cgroup.controllers")).split())
    for name in CONTROLLERS:
        if name not in offered:
            continue
        with suppress(OSError):
            try:
                _enable(folder, name)
            except OSError as error:
                if error.errno != errno.EBUSY or not _is_delegated(folder):
                    raise
                _move_to_leaf(folder)
                _enable(folder, name)


def _enable(folder: str, controller: str) -> None:
    with open(os.path.join(folder, "cgroup.subtree_control"), "w") as file:
        file.write(f"+{controller}")


def _is_delegated(folder: str) -> bool:
    """Whether its processes may be moved: systemd says so, or it is the top group of a container."""
    for name in _DELEGATED:
        with suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return own_groups().get("") == "/"


def _move_to_leaf(folder: str) -> None:
    leaf = os.path.join(folder, LEAF)
    os.makedirs(leaf, exist_ok=True)
    for pid in _read(os.path.join(folder, "cgroup.procs")).split():
        with suppress(OSError), open(os.path.join(leaf, "cgroup.procs"), "w") as file:  # it may have ended
            file.write(pid)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
