"""The plane's blobs for a child process: the variables that describe them, and how the child opens them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mizzen.blobs.disk_room import Room
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.object_store_credentials import Credentials

URL: Final = "MIZZEN_BLOB_STORE"
"""Prefix of all these variables. User code in the process must not see them."""
_ENDPOINT: Final = f"{URL}_ENDPOINT"
_REGION: Final = f"{URL}_REGION"
_ACCESS_KEY_ID: Final = f"{URL}_ACCESS_KEY_ID"
_SECRET_ACCESS_KEY: Final = f"{URL}_SECRET_ACCESS_KEY"
_AROUND: Final = f"{URL}_AROUND_"
"""Prefix for the plane's own credential variables."""


def variables(url: str, credentials: Credentials | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables for a child process; `environ` is the plane's. Some are secret. Empty without a store."""
    if not url:
        return {}
    from mizzen.blobs.object_store import AROUND

    given = credentials or Credentials()
    said = {
        URL: url,
        _ENDPOINT: given.endpoint,
        _REGION: given.region,
        _ACCESS_KEY_ID: given.access_key_id,
        _SECRET_ACCESS_KEY: given.secret_access_key,
    }
    around = {f"{_AROUND}{name}": value for name, value in environ.items() if name.startswith(AROUND)}
    return {name: value for name, value in said.items() if value} | around


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
    around = _around(environ)
    return Credentials(
        endpoint=environ.get(_ENDPOINT, "")
        or around.get("AWS_ENDPOINT_URL_S3", "")
        or around.get("AWS_ENDPOINT_URL", ""),
        region=environ.get(_REGION, "") or around.get("AWS_REGION", "") or around.get("AWS_DEFAULT_REGION", ""),
        access_key_id=environ.get(_ACCESS_KEY_ID, "") or around.get("AWS_ACCESS_KEY_ID", ""),
        secret_access_key=environ.get(_SECRET_ACCESS_KEY, "") or around.get("AWS_SECRET_ACCESS_KEY", ""),
    )


def _around(environ: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_AROUND): value for name, value in environ.items() if name.startswith(_AROUND)}
