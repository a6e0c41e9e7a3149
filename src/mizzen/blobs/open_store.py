"""Opening the blob store that an address names.

Object stores are built in (`object_store.py`). Others come as plug-ins, through an entry point of the group
`mizzen.blobs` whose name is the scheme of the address: `shelf` for `shelf:///mnt/shelf`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from mizzen.blobs.object_store_credentials import Credentials
from mizzen.blobs.store import BlobStore, Stored, explain_error
from mizzen.errors import Unavailable

BUILT_IN = ("s3", "gs", "az", "file")

log = logging.getLogger(__name__)


def open_store(url: str, credentials: Credentials | None = None, environ: Mapping[str, str] | None = None) -> BlobStore:
    """Return the store at this address.

    A store that cannot be opened is logged, and every use of it raises Unavailable; files on this machine's own disk
    are still served. `credentials` are for S3. `environ` replaces this process's own variables for object stores.
    """
    from mizzen import plugins  # imported here because most runners do not need it and start faster without it

    scheme = urlsplit(url).scheme
    try:
        if scheme in BUILT_IN:
            from mizzen.blobs.object_store import ObjectBlobs

            return ObjectBlobs(url, credentials, environ)
        entry = plugins.entry(plugins.BLOBS, scheme)
        if entry is None:
            known = ", ".join([*BUILT_IN, *(one.name for one in plugins.entries(plugins.BLOBS))])
            return _Missing(f"no blob store '{scheme}' is installed; there are {known}")
        store: BlobStore = entry.load()(url)
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything, and must not end the plane
        return _Missing(f"the blob store '{scheme}' cannot be opened: {explain_error(error)}")
    return store


class _Missing:
    def __init__(self, why: str) -> None:
        log.error("%s; the plane stores nothing new until this is fixed", why)
        self._why = why

    def put(self, digest: str, file: Path) -> None:
        self._refuse()

    def get(self, digest: str, target: Path) -> None:
        self._refuse()

    def has(self, digest: str) -> bool:
        self._refuse()

    def delete(self, digest: str) -> None:
        self._refuse()

    def stored(self) -> Iterator[Stored]:
        self._refuse()

    def uri(self, digest: str) -> str:
        return ""

    def put_document(self, name: str, data: bytes, *, new: bool) -> bool:
        self._refuse()

    def get_document(self, name: str) -> bytes:
        self._refuse()

    def delete_document(self, name: str) -> None:
        self._refuse()

    def document_names(self) -> Iterator[str]:
        self._refuse()

    def document_uri(self, name: str) -> str:
        return ""

    def _refuse(self) -> NoReturn:
        raise Unavailable(self._why, hint="see the setting blob_store")
