"""`mizzen doctor`: what is wrong with a data dir, and repairs that are safe."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mizzen.cli import output
from mizzen.cli.host.progress_bar import ProgressBar
from mizzen.cli.output import Format
from mizzen.cli.parameters import option
from mizzen.cli.session import PlaneSession

if TYPE_CHECKING:
    from mizzen.diagnosis.defects import Defect


def doctor(
    *,
    repair: Annotated[
        bool,
        option(
            "Repair what is safe: modes, derived files, leftovers, damaged model files of which there is a copy.",
            "--repair",
        ),
    ] = False,
    skip_files: Annotated[bool, option("Do not read every model file to compare digests.", "--skip-files")] = False,
    accept_older_store: Annotated[
        bool,
        option(
            "Continue with a store that is older than it was. What it lacks stays lost; files are set aside.",
            "--accept-older-store",
        ),
    ] = False,
    collect: Annotated[
        bool, option("Let the plane again remove files without a reference, after such a loss.", "--collect")
    ] = False,
    session: PlaneSession,
) -> None:
    """Examine a data dir: store, model files, keys, permissions, processes, ports, disk, clock.

    This works whether or not the plane runs, and changes nothing without --repair. The exit code is 1 if anything is
    wrong and was not repaired.

    \b
    Example:
      mizzen doctor
      mizzen doctor --repair
      mizzen doctor -o json --skip-files
    """
    from mizzen.sdk.connection import locate

    folder = locate.data_dir_of(session.data_dir).absolute()
    if accept_older_store and collect:
        raise typer.BadParameter("use --collect later, when you are sure that nothing is missing")
    if (accept_older_store or collect) and (repair or skip_files):
        raise typer.BadParameter("--accept-older-store and --collect cannot be combined with other options")
    if accept_older_store:
        _accept(folder, session)
    elif collect:
        _end_hold(folder, session)
    else:
        _examine(folder, session, repair=repair, files=not skip_files)


def _examine(folder: Path, session: PlaneSession, *, repair: bool, files: bool) -> None:
    from mizzen.diagnosis.examination import examine

    with ProgressBar() as progress:
        found = list(examine(folder, progress, repair=repair, files=files))
    left = [defect for defect in found if not defect.repaired]
    if session.form is not Format.TABLE:
        session.write_data({"data_dir": str(folder), "healthy": not left, "defects": [asdict(one) for one in found]})
    elif not found:
        output.write(f"{folder} is healthy")
    else:
        for defect in found:
            _write(defect)
    if left:
        raise typer.Exit(1)


def _write(defect: Defect) -> None:
    output.write(f"{'✓' if defect.repaired else '✗'} {defect.check}: {defect.what}")
    output.write(f"    at {defect.where}")
    output.write(f"    {f'repaired: {defect.repaired}' if defect.repaired else f'next: {defect.next}'}")


def _accept(folder: Path, session: PlaneSession) -> None:
    from mizzen.diagnosis import older_store

    problem, aside = asyncio.run(older_store.accept(folder, _now, _new_id))
    text = (
        f"accepted the store as it is ({problem})\n"
        f"its files were set aside in {aside}; files without a reference are kept until 'mizzen doctor --collect'\n"
        "start it with 'mizzen up'"
    )
    session.write_outcome({"accepted": problem, "set_aside": str(aside)}, text)


def _end_hold(folder: Path, session: PlaneSession) -> None:
    from mizzen.diagnosis import older_store

    reason = asyncio.run(older_store.end_hold(folder, _now, _new_id))
    session.write_outcome({"ended": reason}, f"files without a reference are collected again; they were kept: {reason}")


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return uuid.uuid4().hex
