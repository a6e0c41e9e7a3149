"""The machine and what runs on it: disk, versions, run folder, ports, processes that no Workload names, leftovers."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from mizzen.blobs.disk_room import Level, Room
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.diagnosis.defects import Defect, Patient
from mizzen.diagnosis.store_checks import DATABASE
from mizzen.settings import PORTS, Settings
from mizzen.stores.sqlite import schema
from mizzen.supervisor import client, launch
from mizzen.supervisor.data_dir import UnusableHome
from mizzen.supervisor.processes import procfs, survivors

_INODES: Final = 0.02
"""The share of free inodes below which files may soon not be created."""
_SQLITE: Final = (3, 35, 0)
_PYTHON: Final = (3, 11)


def check_machine(patient: Patient, settings: Settings) -> Iterator[Defect]:
    """Disk, inodes and versions."""
    room = Room(patient.root, settings.disk_low_bytes, settings.disk_critical_bytes)
    if room.level() is not Level.ENOUGH:
        yield Defect("disk", room.describe(), str(patient.root), "free space on this disk")
    found = os.statvfs(patient.root)
    if found.f_files and found.f_favail / found.f_files < _INODES:
        what = f"{found.f_favail} of {found.f_files} inodes are free"
        yield Defect("disk", what, str(patient.root), "remove files on this disk")
    if sqlite3.sqlite_version_info < _SQLITE or sys.version_info < _PYTHON:
        what = f"Python {sys.version.split()[0]} with SQLite {sqlite3.sqlite_version} is too old"
        yield Defect("versions", what, sys.executable, "install Mizzen with Python 3.11 or newer")


def check_run_folder(patient: Patient) -> Iterator[Defect]:
    try:
        patient.home.check()
    except UnusableHome as error:
        yield Defect("run folder", str(error), str(patient.home.run), error.hint)
        return
    info = launch.alive(patient.home)
    if info is not None:
        try:
            client.ask(patient.home, "info", timeout=5.0)
        except client.SupervisorGone as error:
            stopped = procfs.is_stopped(info["pid"])
            what = f"the supervisor (pid {info['pid']}) {'is stopped' if stopped else f'does not answer: {error}'}"
            yield Defect("processes", what, f"process {info['pid']}", f"kill -CONT {info['pid']}, or 'mizzen down'")


def check_ports(patient: Patient, settings: Settings) -> Iterator[Defect]:
    """Whether the next start gets its ports."""
    if patient.running:
        return
    for name in PORTS:
        port = getattr(settings, name)
        holder = procfs.holder_of(port) if port else ""
        if holder:
            yield Defect("ports", f"{name} {port} is taken by {holder}", f"port {port}", "stop that program")


def check_processes(patient: Patient) -> Iterator[Defect]:
    """Processes of this data dir that nothing supervises, or that no Workload names."""
    if patient.running:
        uids = _workloads(patient.root)
        with suppress(client.SupervisorGone):
            for process in client.ask(patient.home, "list", timeout=5.0)["processes"]:
                uid, dot, index = process["key"].rpartition(".")
                if dot and index.isdecimal() and uid not in uids and process["pid"]:
                    what = f"no workload names process {process['key']}"
                    yield Defect(
                        "orphans", what, f"process {process['pid']}", "a running plane ends it within a minute"
                    )
        return
    left = [] if launch.alive(patient.home) else survivors.find(patient.home)
    if left:
        what = f"{len(left)} processes run without a supervisor: {', '.join(f'{one.key} ({one.pid})' for one in left)}"
        defect = Defect("orphans", what, str(patient.home.run), "'mizzen up' takes them over, 'mizzen down' ends them")
        yield patient.mend(defect, lambda: f"ended {', '.join(survivors.end_survivors(patient.home))}")


def check_leftovers(patient: Patient) -> Iterator[Defect]:
    """Files that only a running plane needs, and folders of deleted workloads."""
    if patient.running or launch.alive(patient.home) or survivors.find(patient.home):
        return
    sockets = [path for path in (patient.home.socket, *_list(patient.home.sockets)) if path.exists()]
    if sockets:
        what = f"{len(sockets)} sockets of processes that have ended"
        defect = Defect("leftovers", what, str(patient.home.run), "the next start removes them")
        yield patient.mend(defect, lambda: _clear(patient))
    partial = _list(patient.root / "blobs" / "incoming")
    if partial:
        what = f"{len(partial)} incomplete files"
        defect = Defect("leftovers", what, str(patient.root / "blobs" / "incoming"), "the next start removes them")
        yield patient.mend(defect, lambda: _sweep(patient.root))
    uids = _workloads(patient.root)
    folders = [path for path in _list(patient.root / "work") if path.name not in uids]
    if folders:
        what = f"{len(folders)} work folders of workloads that do not exist"
        defect = Defect("leftovers", what, str(patient.root / "work"), "run 'mizzen doctor --repair'")
        yield patient.mend(defect, lambda: _remove_all(folders))


def _workloads(root: Path) -> frozenset[str]:
    path = root / DATABASE
    if not path.exists():
        return frozenset()
    with closing(schema.open_untouched(path)) as connection:
        return frozenset(uid for (uid,) in connection.execute("SELECT uid FROM objects WHERE kind = 'Workload'"))


def _list(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _clear(patient: Patient) -> str:
    with survivors.lock(patient.home) as locked:
        if not locked:
            return ""
        survivors.clear(patient.home)
    return "removed"


def _sweep(root: Path) -> str:
    FileBlobs(root / "blobs").sweep_unpinned()
    return "removed"


def _remove_all(folders: list[Path]) -> str:
    for folder in folders:
        remove_tree(folder)
    return "removed"
