"""CPU and memory of processes, read from /proc. Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/<pid>/stat that are used here."""

    pid: int
    parent: int
    state: str
    cpu_seconds: float
    """User and system time, of the process and of children it has waited for."""


@dataclass(frozen=True, slots=True)
class Memory:
    rss_mb: float
    pss_mb: float
    """Shared pages counted by their share: what this process adds to the machine."""


def parse_stat(text: str) -> Stat:
    """The program's name stands in parentheses and may itself hold spaces and parentheses: split at the last one."""
    pid, rest = text.split(" (", 1)
    fields = rest[rest.rindex(")") + 2 :].split()
    return Stat(int(pid), int(fields[1]), fields[0], sum(map(int, fields[11:15])) / TICKS)


def snapshot() -> dict[int, Stat]:
    """Every process there is now."""
    stats = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                stat = parse_stat((entry / "stat").read_text())
            except OSError:  # it ended meanwhile
                continue
            stats[stat.pid] = stat
    return stats


def tree(root: int, stats: dict[int, Stat]) -> frozenset[int]:
    """`root` and all below it."""
    children: dict[int, list[int]] = {}
    for stat in stats.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    found, open_ = set(), [root] if root in stats else []
    while open_:
        pid = open_.pop()
        found.add(pid)
        open_ += children.get(pid, [])
    return frozenset(found)


def with_environment(variable: str, value: str) -> frozenset[int]:
    """The living processes that were started with this variable: finds what left its parent, too."""
    wanted = f"{variable}={value}".encode()
    return frozenset(
        stat.pid
        for stat in snapshot().values()
        if stat.state != "Z" and wanted in _read(stat.pid, "environ").split(b"\0")
    )


def environment(pid: int) -> dict[str, str]:
    """What a process was started with; empty when it is gone or not ours to read."""
    pairs = (item.partition(b"=") for item in _read(pid, "environ").split(b"\0") if item)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def command(pid: int) -> str:
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def cpu_seconds(pids: Iterable[int]) -> float:
    stats = snapshot()
    return sum(stats[pid].cpu_seconds for pid in pids if pid in stats)


def precise_cpu_seconds(pid: int) -> float:
    """Of one process and its living threads, from the scheduler, which counts in nanoseconds."""
    return sum(int(_text(task / "schedstat").split()[0]) for task in (PROC / str(pid) / "task").iterdir()) / 1e9


def memory(pid: int) -> Memory:
    sizes = {
        name: int(value.split()[0]) / 1024
        for name, _, value in (line.partition(":") for line in _read(pid, "smaps_rollup").decode().splitlines()[1:])
    }
    return Memory(sizes.get("Rss", 0.0), sizes.get("Pss", 0.0))


def parse_busy(text: str) -> float:
    """Seconds that all cores together were busy since boot, from the first line of /proc/stat; stolen time counts."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, text.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def busy_seconds() -> float:
    return parse_busy((PROC / "stat").read_text())


def _text(path: Path) -> str:
    """As if it had used nothing when the thread has ended."""
    try:
        return path.read_text()
    except OSError:
        return "0"


def _read(pid: int, name: str) -> bytes:
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
