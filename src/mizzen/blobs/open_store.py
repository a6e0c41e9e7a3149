"""Opening the blob store that an address names.

Object stores are built in (`object_store.py`). Others come as plug-ins, through an entry point of the group
`mizzen.blobs` whose name is the scheme of the address: `shelf` for `shelf:///mnt/shelf`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NoReturn
from urllib.parse import urlsplit

from mizzen.blobs.object_store_credentials import Credentials
from mizzen.blobs.store import BlobStore, explain_error
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
            return _UnavailableStore(f"'{scheme}' is not the scheme of an installed blob store; expected {known}")
        store: BlobStore = entry.load()(url)
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything, and must not end the plane
        return _UnavailableStore(f"the blob store '{scheme}' cannot be opened: {explain_error(error)}")
    return store


class _UnavailableStore:
    """Stands in for a store that cannot be opened."""

    def __init__(self, reason: str) -> None:
        log.error("%s; the plane stores nothing new until this is fixed", reason)
        self._reason = reason

    def _refuse(self, *_arguments: object, **_options: object) -> NoReturn:
        raise Unavailable(self._reason, hint="check the setting blob_store")

    put = get = delete = stored = _refuse
    put_document = get_document = delete_document = document_names = _refuse

    def uri(self, _digest: str) -> str:
        return ""

    def document_uri(self, _name: str) -> str:
        return ""
