"""The plane's blobs for a child process: the variables that describe them, and how the child opens them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mizzen.blobs.disk_room import Room
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.object_store_credentials import PREFIXES, Credentials

URL: Final = "MIZZEN_BLOB_STORE"
"""Prefix of all these variables. User code in the process must not see them."""
_OWN: Final = {f"{URL}_{name.upper()}": name for name in Credentials.__slots__}
_AROUND: Final = f"{URL}_AROUND_"
"""Prefix for the plane's own credential variables."""


def variables(url: str, credentials: Credentials | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables for a child process; `environ` is the plane's. Some are secret. Empty without a store."""
    if not url:
        return {}
    own = {variable: getattr(credentials, name, "") for variable, name in _OWN.items()}
    around = {f"{_AROUND}{name}": value for name, value in environ.items() if name.startswith(PREFIXES)}
    return {URL: url} | {name: value for name, value in own.items() if value} | around


def blobs_of(data_dir: Path, environ: Mapping[str, str], room: Room | None = None) -> FileBlobs:
    """Opens the blobs in a process started with these variables."""
    folder, url = data_dir / "blobs", environ.get(URL, "")
    if not url:
        return FileBlobs(folder, room)
    from mizzen.blobs.backed_store import BackedBlobs
    from mizzen.blobs.open_store import open_store

    return BackedBlobs(folder, open_store(url, credentials_of(environ), _around(environ)), room)


def credentials_of(environ: Mapping[str, str]) -> Credentials:
    """Returns the credentials of the plane's store, also the default for other buckets."""
    own = Credentials(**{name: environ.get(variable, "") for variable, name in _OWN.items()})
    return own.with_defaults(Credentials.from_env(_around(environ)))


def _around(environ: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_AROUND): value for name, value in environ.items() if name.startswith(_AROUND)}
