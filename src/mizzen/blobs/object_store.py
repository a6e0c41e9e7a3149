"""Blobs in an object store, or in a shared folder: S3, GCS, Azure and file addresses, through obstore.

Credentials are passed in, or come from the environment, as for other programs (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`
and so on). Objects appear atomically: large files are sent as multipart uploads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, from_url

from mizzen.blobs.documents import FOLDER
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.fs import content
from mizzen.blobs.object_store_credentials import PATIENCE, Credentials
from mizzen.blobs.store import Stored
from mizzen.errors import NotFound, Unavailable

PIECE: Final = 8 << 20
"""Bytes per request: few enough to pass through a slow connection before the request times out."""
_PIECES_AT_ONCE: Final = 4
_MOST_PIECES: Final = 9000
"""S3 allows 10,000."""
AROUND: Final = ("AWS_", "GOOGLE_", "AZURE_")
"""Prefixes of environment variables with object store credentials."""


class ObjectBlobs:
    """A BlobStore."""

    def __init__(
        self, url: str, credentials: Credentials | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        """`environ`: variables that replace this process's own, such as AWS_SESSION_TOKEN."""
        self._url = url.rstrip("/")
        self._files: FileBlobs | None = None
        if url.startswith("file://"):
            folder = Path(url.removeprefix("file://"))
            folder.mkdir(parents=True, exist_ok=True)
            self._store: Any = LocalStore(folder)
            self._files = FileBlobs(folder)
        else:
            self._store = open_object_store(self._url, credentials, environ)

    def put(self, digest: str, file: Path) -> None:
        if self._files is not None:
            self._files.put_file(file)  # obstore does not sync to disk
            return
        piece = max(PIECE, file.stat().st_size // _MOST_PIECES + 1)
        obstore.put(self._store, _key(digest), file, chunk_size=piece, max_concurrency=_PIECES_AT_ONCE)

    def get(self, digest: str, target: Path) -> None:
        try:
            # Not HEAD: it does not distinguish a missing object from a missing bucket.
            found = obstore.get(self._store, _key(digest))
            size = found.meta["size"]
            with target.open("wb") as file:
                if size <= PIECE:
                    file.write(found.bytes())
                    return
                for chunk in pieces(self._store, _key(digest), 0, size):
                    file.write(chunk)
        except FileNotFoundError as error:
            raise _missing(digest, error) from None

    def has(self, digest: str) -> bool:
        try:
            obstore.head(self._store, _key(digest))
        except FileNotFoundError:
            return False
        return True

    def delete(self, digest: str) -> None:
        try:
            obstore.delete(self._store, _key(digest))
        except FileNotFoundError:
            return

    def stored(self) -> Iterator[Stored]:
        for page in obstore.list(self._store, "sha256"):
            for item in page:
                digest = content.digest_name(item["path"].rpartition("/")[2])
                if content.DIGEST.fullmatch(digest):
                    yield Stored(digest, item["size"], item["last_modified"])

    def uri(self, digest: str) -> str:
        return f"{self._url}/{_key(digest)}"

    def put_document(self, name: str, data: bytes, *, new: bool) -> bool:
        if self._files is not None:
            return self._files.documents.put(name, data, new=new)
        mode: Any = "create" if new else "overwrite"
        try:
            obstore.put(self._store, f"{FOLDER}/{name}", data, mode=mode, use_multipart=False)
        except AlreadyExistsError:
            return False
        return True

    def get_document(self, name: str) -> bytes:
        try:
            if self._files is not None:
                return self._files.documents.get(name)
            return obstore.get(self._store, f"{FOLDER}/{name}").bytes().to_bytes()
        except (FileNotFoundError, NotFound) as error:
            raise _missing(name, error) from None

    def delete_document(self, name: str) -> None:
        if self._files is not None:
            self._files.documents.delete(name)
            return
        try:
            obstore.delete(self._store, f"{FOLDER}/{name}")
        except FileNotFoundError:
            return

    def document_names(self) -> Iterator[str]:
        if self._files is not None:
            yield from self._files.documents.names()
            return
        for page in obstore.list(self._store, FOLDER):
            for item in page:
                yield item["path"].removeprefix(f"{FOLDER}/")

    def document_uri(self, name: str) -> str:
        return f"{self._url}/{FOLDER}/{name}"


def open_object_store(
    url: str, credentials: Credentials | None = None, environ: Mapping[str, str] | None = None, **options: Any
) -> Any:
    """Returns an obstore store for this address, without any request yet. `options`: further obstore options."""
    given = credentials or Credentials()
    if given.endpoint:  # obstore would prefer this variable to its arguments
        environ = {**(os.environ if environ is None else environ), "AWS_ENDPOINT_URL_S3": given.endpoint}
    with _variables(environ):
        endpoint = given.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        client = {**PATIENCE["client_options"], "allow_http": endpoint.startswith("http://")}
        told: Any = {
            **(given.config() if url.startswith("s3:") else {}),
            **options,
            "client_options": client,
            "retry_config": PATIENCE["retry_config"],
        }
        return from_url(url, **told)


def pieces(store: Any, path: str, start: int, size: int, e_tag: str | None = None) -> Iterator[bytes]:
    """Yields the content of an object of this size from `start` on, one request per piece.

    So no request lasts long enough to time out, however large the object is. Raises FileNotFoundError, and
    PreconditionError if its ETag is no longer `e_tag`.
    """
    while start < size:
        options: Any = {"range": (start, min(start + PIECE, size))} | ({"if_match": e_tag} if e_tag else {})
        data = obstore.get(store, path, options=options).bytes().to_bytes()
        if not data:
            raise Unavailable(f"{path} ends after {start:,} of {size:,} bytes", hint="try again")
        start += len(data)
        yield data


_turn = threading.Lock()


@contextmanager
def _variables(environ: Mapping[str, str] | None) -> Iterator[None]:
    """Replaces credential variables: obstore reads the environment, where a runner has those of its model code."""
    if environ is None:
        yield
        return
    with _turn:
        before = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(AROUND)}
        os.environ.update({name: value for name, value in environ.items() if name.startswith(AROUND)})
        try:
            yield
        finally:
            for name in [name for name in os.environ if name.startswith(AROUND)]:
                del os.environ[name]
            os.environ.update(before)


def _missing(name: str, error: Exception) -> KeyError:
    """Returns KeyError. Raises Unavailable if the bucket itself is missing: then its content is unknown."""
    if "NoSuchBucket" in str(error):
        raise Unavailable("the blob store has no such bucket", hint="make it, or see the setting blob_store") from None
    return KeyError(name)


def _key(digest: str) -> str:
    hex_ = content.hex_of(digest)
    return f"sha256/{hex_[:2]}/{hex_}"
