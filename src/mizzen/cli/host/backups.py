"""`mizzen backup` and `restore`: a plane's data dir as one file, and back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.host.progress_bar import ProgressBar
from mizzen.cli.interrupts import Interrupts, report_interrupt
from mizzen.cli.output import Printer
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import PlaneSession

if TYPE_CHECKING:
    from mizzen.backups.create import BackupRequest, BackupResult
    from mizzen.backups.manifest import Manifest


def backup(
    target: Annotated[
        str,
        argument(
            "FILE|DIR",
            "File (.tar, or .tar.gz to compress), '-' for stdout, or a folder of backups that share model files.",
        ),
    ],
    *,
    without_keys: Annotated[
        bool,
        option(
            "Leave out admin-token, keys and certificates; to decrypt secrets after a restore, add secret-key.",
            "--without-keys",
        ),
    ] = False,
    keep: Annotated[
        int | None, option("In a folder: keep only the newest N backups of this plane.", min=1, metavar="N")
    ] = None,
    session: PlaneSession,
) -> None:
    """Back up the plane in a data dir, even while it runs.

    The backup holds everything acknowledged before it began: objects, history, audit log, model files, users, secrets,
    settings and the state of bandits. Protect it like a key: anyone who can read it can decrypt the secrets and act as
    the admin. An existing file is replaced once the new one is complete.

    \b
    Example:
      mizzen backup mizzen.tar
      mizzen backup /srv/backups/ --keep 14
      ssh server mizzen backup - > mizzen.tar
    """
    from mizzen.backups import create
    from mizzen.backups import folder as backups_folder

    folder = target.endswith("/") or Path(target).is_dir()
    if keep is not None and not folder:
        raise typer.BadParameter("--keep needs a folder of backups: end its name with /")
    wanted = _backup_request(session.data_dir, keys=not without_keys)
    with _handle_interrupts("no backup was written"), ProgressBar() as progress:
        place: Path | None = Path(target)
        if target == "-":
            place, made = None, create.to_stream(wanted, _stdout(), progress)
        elif folder:
            place, made = backups_folder.add(wanted, Path(target), progress, keep=keep)
        else:
            made = create.to_file(wanted, Path(target), progress)
    _report(made, place, session)


def restore(
    source: Annotated[Path, argument("FILE|DIR", "Backup, or a folder of backups to take the newest from.")],
    *,
    check: Annotated[bool, option("Only check that the backup can be restored; write nothing.", "--check")] = False,
    session: PlaneSession,
) -> None:
    """Create a data dir from a backup. The data dir must be new or empty.

    The whole backup is verified first: if it is truncated or altered, nothing is written. If the original plane
    still runs, start the new one with --port 0 --inference-port 0 --tls-port 0 --grpc-port 0. If `blob_store` is set,
    also set MIZZEN_BLOB_STORE to an empty value: two planes must not share a blob store.

    \b
    Example:
      mizzen restore mizzen.tar --data-dir /srv/mizzen
      mizzen restore mizzen.tar --check
    """
    from mizzen.backups import folder as backups_folder
    from mizzen.backups import restore as backups_restore
    from mizzen.sdk.connection import locate

    file = backups_folder.find_newest(source) if source.is_dir() else source
    folder = locate.data_dir_of(session.data_dir).absolute()
    with _handle_interrupts("nothing was restored"), ProgressBar() as progress:
        manifest = backups_restore.verify(file, progress) if check else backups_restore.restore(file, folder, progress)
    _warn_absent(manifest.absent)
    if not check and not manifest.keys:
        output.warn(
            "the backup has no keys: copy secret-key into the data dir before you start the plane, to decrypt secrets; "
            "also copy the TLS certificate and key, if the settings name them; the next start creates a new admin token"
        )
    text = f"{file} is intact: {_describe(manifest)}" if check else f"restored {_describe(manifest)} to {folder}"
    hint = [] if check else [f"start it with 'mizzen up --data-dir {folder}'"]
    session.write_outcome(
        {"file": str(file), **_to_data(manifest), **({} if check else {"data_dir": str(folder)})},
        "\n".join([text, *hint]),
    )


def _backup_request(data_dir: Path | None, *, keys: bool) -> BackupRequest:
    from datetime import UTC, datetime

    from mizzen.backups.create import BackupRequest
    from mizzen.sdk.connection import locate
    from mizzen.settings import Settings

    folder = locate.data_dir_of(data_dir)
    try:
        settings = Settings.load({"data_dir": folder})
        also, also_keys = [settings.oidc_keys], [settings.tls_certificate, settings.tls_key]
    except errors.Invalid as error:  # a plane whose settings are invalid can still be backed up
        output.warn(f"files that the settings name are not in the backup; keep copies of them: {error.message}")
        also, also_keys = [], []
    return BackupRequest(
        folder,
        datetime.now(UTC),
        keys=keys,
        also=tuple(name for name in also if name),
        also_keys=tuple(name for name in also_keys if name),
    )


def _report(made: BackupResult, place: Path | None, printer: Printer) -> None:
    manifest = made.manifest
    _warn_absent(tuple(digest for digest in manifest.absent if digest not in made.damaged))
    if made.left_out:
        output.warn(
            f"the backup leaves out {', '.join(made.left_out)} because of their path or name; keep copies of them, or "
            "give them plain names (letters, digits, '.', '_', '-') in the data dir"
        )
    if manifest.keys:
        output.note(
            "the backup holds the admin's token and the key of all secrets: keep it where no one else can read it"
        )
    if place is not None:
        size = place.stat().st_size
        text = f"{place}: {_describe(manifest)} ({output.format_size(size)} written)"
        printer.write_outcome({"file": str(place), "written": size, **_to_data(manifest)}, text)
    if made.damaged:
        raise errors.MizzenError(
            f"the backup is complete except for {len(made.damaged)} model files, which are damaged in the data dir: "
            + ", ".join(made.damaged[:3]),
            hint="register the versions that use them again",
        )


def _warn_absent(absent: tuple[str, ...]) -> None:
    if absent:
        output.warn(
            f"the backup lacks {len(absent)} files that objects name: the plane had not fetched them yet, or had lost "
            f"them ({', '.join(absent[:3])})"
        )


def _describe(manifest: Manifest) -> str:
    blobs = [item for item in manifest.items if item.blob]
    size = output.format_size(sum(item.size for item in blobs))
    return f"the plane as of {manifest.taken}, with {len(blobs)} model files ({size})"


def _to_data(manifest: Manifest) -> dict[str, Any]:
    return {
        "taken": manifest.taken,
        "mizzen": manifest.mizzen,
        "schema": manifest.schema,
        "resource_version": manifest.resource_version,
        "keys": manifest.keys,
        "blobs": sum(item.blob for item in manifest.items),
        "size": manifest.size,
        "absent": list(manifest.absent),
    }


def _stdout() -> Any:
    if sys.stdout.isatty():
        raise typer.BadParameter("a backup cannot be printed to a terminal: redirect stdout to a file or a pipe")
    return sys.stdout.buffer


@contextmanager
def _handle_interrupts(left: str) -> Iterator[None]:
    """TERM and HUP interrupt the block like Ctrl-C, and leave nothing half done."""
    with Interrupts(), report_interrupt(lambda: left):
        yield
