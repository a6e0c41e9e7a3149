"""All checks of a data dir, in an order in which each can rely on those before it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from mizzen.diagnosis import blob_checks, host_checks, key_checks, store_checks
from mizzen.diagnosis.defects import Defect, ExaminationProgress, Patient
from mizzen.errors import Forbidden, Invalid, MizzenError, NotFound
from mizzen.settings import Settings
from mizzen.supervisor import launch
from mizzen.supervisor.data_dir import Home, UnusableHome


def examine(
    data_dir: Path, progress: ExaminationProgress, *, repair: bool = False, files: bool = True
) -> Iterator[Defect]:
    """Yields each defect. With `repair`, repairs what it safely can. `files`: also reads all files by digest.

    Raises NotFound if there is no data dir, and Forbidden to anyone but its owner.
    """
    check_owner(data_dir)
    home = Home.of(data_dir)
    try:
        running = launch.alive(home) is not None
    except UnusableHome:
        running = False
    patient = Patient(home, running, repair, progress)
    settings, faults = _load_settings(data_dir)
    yield from faults
    damaged = held = False
    for defect in store_checks.check_store(patient):
        damaged, held = damaged or defect.check == "store", held or defect.check == "marks"
        yield defect
    yield from store_checks.check_derived(patient)
    yield from store_checks.check_other_databases(patient)
    yield from key_checks.check_permissions(patient)
    yield from host_checks.check_run_folder(patient)
    yield from host_checks.check_machine(patient, settings)
    yield from host_checks.check_ports(patient, settings)
    yield from blob_checks.check_documents(patient)
    if damaged:
        return  # what it references is not known, so nothing can be called missing, and nothing too much
    rest: list[tuple[str, Callable[[Patient], Iterator[Defect]]]] = [
        ("keys", key_checks.check_keys),
        ("orphans", host_checks.check_processes),
    ]
    if not held:
        rest.append(("leftovers", host_checks.check_leftovers))
    if files:
        rest.append(("blobs", lambda patient: blob_checks.check_blobs(patient, remote=bool(settings.blob_store))))
    for name, check in rest:
        try:
            yield from check(patient)
        except (sqlite3.Error, MizzenError) as error:
            yield Defect(name, f"cannot be examined: {error}", str(data_dir), "see the other defects")


def check_owner(data_dir: Path) -> None:
    """Raises NotFound or Forbidden: others would leave files that the plane cannot read."""
    try:
        owner = data_dir.stat().st_uid
    except FileNotFoundError as error:
        raise NotFound(f"no folder {data_dir}", hint="name another one with --data-dir") from error
    if owner != os.geteuid():
        raise Forbidden(f"{data_dir} belongs to another user", hint="run this as the user that runs the plane")


def _load_settings(data_dir: Path) -> tuple[Settings, list[Defect]]:
    try:
        return Settings.load({"data_dir": data_dir}), []
    except Invalid as error:
        what = "; ".join([error.message, *map(str, error.faults)])
        return Settings(data_dir=str(data_dir)), [
            Defect("settings", what, str(data_dir / "settings.toml"), error.hint or "correct the settings")
        ]
