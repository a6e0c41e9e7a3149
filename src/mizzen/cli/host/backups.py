"""backup and restore: a plane's data dir as one file, and back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.interrupts import Interrupts, told
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Output

if TYPE_CHECKING:
    import rich.progress

    from mizzen.backups.create import Made, Wanted
    from mizzen.backups.manifest import Manifest


def backup(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|DIR",
            help="A file (.tar, or .tar.gz to compress it), '-' for stdout, or a folder that holds many backups: "
            "there, files of models are copied once.",
        ),
    ],
    *,
    without_keys: Annotated[
        bool,
        typer.Option(
            "--without-keys",
            help="Leave out admin-token, keys and certificates; secrets then open only with the secret-key.",
        ),
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="In a folder: remove all backups of this plane but the newest N."),
    ] = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Take a backup of the plane in a data dir, also while it runs and is written to.

    It holds all that was acknowledged before it began: objects, history, audit, files of models, users, secrets,
    settings, what bandits have learnt. Keep it as you keep keys: whoever reads it can open the secrets and be the
    admin. A file that is there is replaced once the new one is complete.

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
        raise typer.BadParameter("--keep is for a folder that holds many backups: name one, with a / at its end")
    wanted = _wanted(data_dir, keys=not without_keys)
    with _interruptible("no backup was written"), _Shown() as progress:
        place: Path | None = Path(target)
        if target == "-":
            place, made = None, create.to_stream(wanted, _stdout(), progress)
        elif folder:
            place, made = backups_folder.add(wanted, Path(target), progress, keep=keep)
        else:
            made = create.to_file(wanted, Path(target), progress)
    _tell_made(made, place, form)


def restore(
    source: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="A backup, or a folder of them: then the newest is meant.")
    ],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Only read all of it, and say whether it could be restored.")
    ] = False,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Make a data dir from a backup. It must be new, or empty.

    All of the backup is read and compared first: one that was cut off or altered is refused, and nothing is written.
    The plane it was taken of may still run; then start this one with --port 0 --inference-port 0 --tls-port 0
    --grpc-port 0, and where `blob_store` is set, with MIZZEN_BLOB_STORE= (none): two planes must not share one.

    \b
    Example:
      mizzen restore mizzen.tar --data-dir /srv/mizzen
      mizzen restore mizzen.tar --check
    """
    from mizzen.backups import folder as backups_folder
    from mizzen.backups import restore as backups_restore
    from mizzen.sdk.connection import locate

    file = backups_folder.newest(source) if source.is_dir() else source
    folder = locate.data_dir_of(data_dir).absolute()
    with _interruptible("nothing was restored"), _Shown() as progress:
        manifest = backups_restore.checked(file, progress) if check else backups_restore.restore(file, folder, progress)
    _warn_absent(manifest.absent)
    if not check and not manifest.keys:
        output.warn(
            "the backup was taken without keys: put secret-key into the data dir before it is started, else no secret "
            "opens, and the certificate and key that settings name, if they do; the admin gets a new token"
        )
    said = f"{file} is whole: {_described(manifest)}" if check else f"restored {_described(manifest)} to {folder}"
    hint = [] if check else [f"start it with 'mizzen up --data-dir {folder}'"]
    output.outcome(
        {"file": str(file), **_data(manifest), **({} if check else {"data_dir": str(folder)})},
        form,
        "\n".join([said, *hint]),
    )


def _wanted(data_dir: Path | None, *, keys: bool) -> Wanted:
    from datetime import UTC, datetime

    from mizzen.backups.create import Wanted
    from mizzen.sdk.connection import locate
    from mizzen.settings import Settings

    folder = locate.data_dir_of(data_dir)
    try:
        settings = Settings.load({"data_dir": folder})
        also, also_keys = [settings.oidc_keys], [settings.tls_certificate, settings.tls_key]
    except errors.Invalid as error:  # a plane that would not start with its settings can still be saved
        output.warn(f"files that settings name are not in the backup; keep copies of them: {error.message}")
        also, also_keys = [], []
    return Wanted(
        folder,
        datetime.now(UTC),
        keys=keys,
        also=tuple(name for name in also if name),
        also_keys=tuple(name for name in also_keys if name),
    )


def _tell_made(made: Made, place: Path | None, form: Format) -> None:
    manifest = made.manifest
    _warn_absent(tuple(digest for digest in manifest.absent if digest not in made.damaged))
    if made.left_out:
        output.warn(
            f"not in the backup, for their place or their name: {', '.join(made.left_out)}; keep copies of them, or "
            "give them plain names (letters, digits, '.', '_', '-') in the data dir"
        )
    if manifest.keys:
        output.note("it holds the admin's token and the key of all secrets: keep it where nobody else can read it")
    if place is not None:
        size = place.stat().st_size
        output.outcome(
            {"file": str(place), "written": size, **_data(manifest)},
            form,
            f"{place}: {_described(manifest)} ({output.size(size)} written)",
        )
    if made.damaged:
        raise errors.MizzenError(
            f"the backup is complete but for {len(made.damaged)} files of models, which are damaged in the data dir: "
            + ", ".join(made.damaged[:3]),
            hint="register the versions that name them again",
        )


def _warn_absent(absent: tuple[str, ...]) -> None:
    if absent:
        output.warn(
            f"{len(absent)} files that objects name are not in the backup, as the plane did not have them: not fetched "
            f"yet, or lost ({', '.join(absent[:3])})"
        )


def _described(manifest: Manifest) -> str:
    blobs = [item for item in manifest.items if item.blob]
    size = output.size(sum(item.size for item in blobs))
    return f"the plane as of {manifest.taken}, with {len(blobs)} files of models ({size})"


def _data(manifest: Manifest) -> dict[str, Any]:
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
        raise typer.BadParameter("a backup is not for a terminal: send stdout to a file or a pipe")
    return sys.stdout.buffer


@contextmanager
def _interruptible(left: str) -> Iterator[None]:
    """TERM and HUP end it as Ctrl-C does: with nothing half left behind."""
    with Interrupts(), told(lambda: left):
        yield


class _Shown:
    """Progress on a terminal; silence elsewhere."""

    def __init__(self) -> None:
        self._bar: rich.progress.Progress | None = None

    def __enter__(self) -> _Shown:
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, what: str, total: int) -> None:
        if self._bar is not None:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task(what, total=total)

    def more(self, done: int) -> None:
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], done)
