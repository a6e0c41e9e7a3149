"""Blobs in an object store, or in a shared folder: S3, GCS, Azure and file addresses, through obstore.

Credentials are passed in, or come from the environment, as for other programs (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`
and so on). Objects appear atomically: large files are sent as multipart uploads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, UnknownConfigurationKeyError
from obstore.store import LocalStore, S3Store, from_url

from mizzen.blobs.documents import FOLDER
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.fs import content
from mizzen.blobs.object_store_credentials import PATIENCE, PREFIXES, Credentials, refuse_variables, s3_options
from mizzen.blobs.store import Stored
from mizzen.errors import NotFound, Unavailable

PIECE: Final = 8 << 20
"""Bytes per request: few enough to pass through a slow connection before the request times out."""
_PIECES_AT_ONCE: Final = 4
_MOST_PIECES: Final = 9000
"""S3 allows 10,000."""


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
        obstore.put(self._store, content.blob_key(digest), file, chunk_size=piece, max_concurrency=_PIECES_AT_ONCE)

    def get(self, digest: str, target: Path) -> None:
        try:
            # Not HEAD: it does not distinguish a missing object from a missing bucket.
            found = obstore.get(self._store, content.blob_key(digest))
            size = found.meta["size"]
            with target.open("wb") as file:
                if size <= PIECE:
                    file.write(found.bytes())
                    return
                for chunk in pieces(self._store, content.blob_key(digest), 0, size):
                    file.write(chunk)
        except FileNotFoundError as error:
            raise _missing(digest, error) from None

    def delete(self, digest: str) -> None:
        try:
            obstore.delete(self._store, content.blob_key(digest))
        except FileNotFoundError:
            return

    def stored(self) -> Iterator[Stored]:
        for page in obstore.list(self._store, "sha256"):
            for item in page:
                digest = content.digest_name(item["path"].rpartition("/")[2])
                if content.DIGEST.fullmatch(digest):
                    yield Stored(digest, item["size"], item["last_modified"])

    def uri(self, digest: str) -> str:
        return f"{self._url}/{content.blob_key(digest)}"

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
    url: str, credentials: Credentials | None = None, environ: Mapping[str, str] | None = None, **config: Any
) -> Any:
    """Returns an obstore store for this address, without any request yet. `config`: further obstore configuration.

    Raises ValueError if `environ` cannot replace all variables of this process.
    """
    variables = os.environ if environ is None else environ
    complete = (credentials or Credentials()).with_defaults(Credentials.from_env(variables))
    client = {**PATIENCE["client_options"], "allow_http": complete.endpoint.startswith("http://")}
    common: Any = {"client_options": client, "retry_config": PATIENCE["retry_config"]}
    if url.startswith("s3:"):
        # Not `from_url`, which does not know the option `aws_endpoint_url_s3`.
        parts = urlsplit(url)
        prefix = unquote(parts.path).strip("/") or None
        return S3Store(parts.netloc, prefix=prefix, **common, **s3_options(complete, variables, config))
    common["config"] = config if environ is None else config | _read_config(url, environ)
    return from_url(url, **common)


def _read_config(url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the configuration that these variables hold for this address. Raises ValueError like `s3_options`."""
    names = {name for name in {*os.environ, *environ} if name.startswith(PREFIXES) and _is_option(url, name)}
    refuse_variables(names - environ.keys())
    return {name.lower(): environ[name] for name in names}


def _is_option(url: str, name: str) -> bool:
    """Whether obstore reads this variable for this address."""
    try:
        from_url(url, **cast(Any, {"config": {name.lower(): ""}}))
    except UnknownConfigurationKeyError:
        return False
    except (BaseError, ValueError):  # it is known, and empty is not a valid value
        return True
    return True


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


def _missing(name: str, error: Exception) -> KeyError:
    """Returns KeyError. Raises Unavailable if the bucket itself is missing: then its content is unknown."""
    if "NoSuchBucket" in str(error):
        raise Unavailable("the blob store has no such bucket", hint="create it, or check blob_store") from None
    return KeyError(name)
