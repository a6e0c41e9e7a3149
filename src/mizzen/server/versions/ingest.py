"""Stores the files of each kind of source in the blob store, and checks which callers may use that kind."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from starlette.requests import Request

from mizzen.access.policy import Actor
from mizzen.blobs.file_store import BlobDescriptor, Entry, FileBlobs
from mizzen.blobs.fs.cancellable_thread import CancellableReader, in_thread
from mizzen.blobs.fs.content import digest_name
from mizzen.blobs.fs.folders import HasContent
from mizzen.blobs.ingest import archives, download, git
from mizzen.blobs.ingest.intake import Intake, path_fault, without_top
from mizzen.blobs.ingest.spool import Spool
from mizzen.blobs.ingest.uploads import Uploads
from mizzen.errors import Fault, Forbidden, Invalid, NotFound
from mizzen.kinds.schema.resource import Ref
from mizzen.server.admission import model_family
from mizzen.server.auth.authorization import actor_of
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.versions.sources import Download, GitFiles, LocalFiles, Source, UploadedArchive, UploadedFile
from mizzen.stores.all_pages import each
from mizzen.stores.store import Store

CODE_SUFFIXES = frozenset({".py", ".pyx", ".pyi", ".ipynb", ".sh", ".toml", ".cfg", ".lock"})
CODE_NAMES = frozenset({"requirements.txt", "environment.yml", "conda.yaml", "Dockerfile", "Makefile"})


@dataclass(frozen=True, slots=True)
class IngestedFiles:
    entries: tuple[Entry, ...]
    git: Mapping[str, Any] | None = None
    """repo, ref and commit, if the files came from Git."""
    source: Mapping[str, Any] | None = None
    """url and sha256sum, if the files were downloaded."""


async def ingest_source(request: Request, model: Ref, source: Source, entrypoint: str | None) -> IngestedFiles:
    """Store all files of a source. Raises Invalid, Forbidden, TooLarge, BadRequest, Unavailable."""
    context, actor = context_of(request), actor_of(request)
    match source:
        case None:
            return IngestedFiles(())
        case LocalFiles():
            _require_local_admin(request, actor)
            return await in_thread(ingest_local, context, source, entrypoint)
        case GitFiles():
            return await _ingest_git(context, source, actor)
        case Download():
            return await ingest_download(context, source, actor, entrypoint)
        case UploadedArchive():
            if await find_unavailable(context, model, actor, [source.digest]):
                raise _not_uploaded_error(model, (Fault("archive", "its content has not been uploaded"),))
            return IngestedFiles(await in_thread(_unpack_path, context, context.blobs.path(source.digest), entrypoint))
    return IngestedFiles(await _ingest_uploaded(context, model, actor, source))


def unpack(
    stop: threading.Event, context: ServerContext, spool: Spool, file_name: str, entrypoint: str | None
) -> tuple[Entry, ...]:
    """The files of a received body. Blocking. A named file that is not an archive is a version by itself."""
    name = file_name.replace("\\", "/").rpartition("/")[2]
    content = spool.content()
    if name and not archives.should_unpack(content, name):
        fault = path_fault(name)
        if fault:
            raise Invalid.of("the version", (Fault("code", f"the file's name: {fault}"),))
        blob = context.blobs.keep(spool.path, BlobDescriptor(spool.digest, spool.size))
        return (Entry(name, blob.digest, blob.size),)
    return _unpack_archive(stop, context, content, spool.size, entrypoint)


async def find_unavailable(context: ServerContext, model: Ref, actor: Actor, digests: Iterable[str]) -> frozenset[str]:
    """Digests that this actor may not use: not stored, or neither uploaded by them nor part of this model.

    Otherwise a caller could obtain another user's content by knowing its digest.
    """
    wanted = frozenset(digests)
    uploads = Uploads(context.blobs, context.limits)
    unknown = frozenset(one for one in wanted if not actor.admin and not uploads.has_sent(actor.name, one))
    if unknown:
        unknown -= await _digests_of_model(context.store, model)
    return unknown | await asyncio.to_thread(context.blobs.hold, wanted - unknown)


def entries_of(spec: Mapping[str, Any]) -> tuple[Entry, ...]:
    """The files of a stored version. Stored specs may come from anywhere, so malformed entries are skipped."""
    artifacts = spec.get("artifacts")
    found = (_parse_entry(artifact) for artifact in artifacts) if isinstance(artifacts, list) else ()
    return tuple(entry for entry in found if entry is not None)


def code_digest(files: Iterable[HasContent]) -> str | None:
    """One digest of all code among these files; None if there is none."""
    return _digest(file for file in files if is_code(file.path))


def data_digest(files: Iterable[HasContent]) -> str | None:
    return _digest(file for file in files if not is_code(file.path))


def is_code(path: str) -> bool:
    file = PurePosixPath(path)
    return file.suffix in CODE_SUFFIXES or file.name in CODE_NAMES


def _parse_entry(artifact: Any) -> Entry | None:
    if not isinstance(artifact, Mapping):
        return None
    path, digest, size = (artifact.get(name) for name in ("path", "digest", "size"))
    if not isinstance(path, str) or not isinstance(digest, str):
        return None
    return Entry(path, digest, size if isinstance(size, int) else 0)


def _digest(files: Iterable[HasContent]) -> str | None:
    listing = sorted((file.path, file.digest) for file in files)
    return digest_name(hashlib.sha256(json.dumps(listing).encode()).hexdigest()) if listing else None


def _require_local_admin(request: Request, actor: Actor) -> None:
    """The plane can read every file of its user, so only callers that can read them anyway may name local files."""
    host = request.client.host if request.client else ""
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = not host  # a unix socket
    if not actor.admin or not here:
        raise Forbidden(
            "only an admin on the plane's own machine may name local files",
            hint="upload the files with 'mizzen version add', or POST an archive of them",
        )


def ingest_local(
    stop: threading.Event, context: ServerContext, source: LocalFiles, entrypoint: str | None
) -> IngestedFiles:
    """Store local files. The path is part of the request, so a missing file raises Invalid."""
    try:
        if source.sha256 is None:
            if _is_archive(source.path):
                return IngestedFiles(_unpack_path(stop, context, source.path, entrypoint))
            return IngestedFiles(context.blobs.collect(source.path, stop))
        with context.blobs.spool(context.limits.upload_bytes) as spool, source.path.open("rb") as file:
            spool.fill(CancellableReader(file, stop))
            _verify_sha256(spool, source.sha256)
            entries = _unpack_and_keep(stop, context, spool, source.path.name, entrypoint)
            return IngestedFiles(entries, source=_source_record(source.path.as_uri(), spool))
    except (NotFound, OSError) as error:
        cause = error.message if isinstance(error, NotFound) else f"cannot read {source.path}: {error.strerror}"
        raise Invalid.of("the version", (Fault("path", cause),)) from error


def _is_archive(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return archives.should_unpack(file, path.name)


def _unpack_path(
    stop: threading.Event, context: ServerContext, path: Path, entrypoint: str | None
) -> tuple[Entry, ...]:
    with path.open("rb") as file:
        return _unpack_archive(stop, context, file, path.stat().st_size, entrypoint)


def _unpack_archive(
    stop: threading.Event, context: ServerContext, file: BinaryIO, size: int, entrypoint: str | None
) -> tuple[Entry, ...]:
    with context.blobs.batch(stop) as put:
        intake = Intake(put, context.limits, size)
        archives.unpack(file, size, intake, context.limits)
        return without_top(intake.entries(), entrypoint)


async def ingest_download(
    context: ServerContext,
    source: Download,
    actor: Actor,
    entrypoint: str | None,
    on_start: Callable[[Spool], None] = lambda _spool: None,
) -> IngestedFiles:
    """Download and store files. `on_start` gets the spool, whose size shows the progress."""
    with context.blobs.spool(context.limits.upload_bytes) as spool:
        on_start(spool)
        await download.fetch(source.url, spool, source.sha256, download.DownloadPolicy(private=actor.admin))
        name = PurePosixPath(download.check_url(source.url).path).name
        entries = await in_thread(_unpack_and_keep, context, spool, name, entrypoint)
        return IngestedFiles(entries, source=_source_record(download.redact_url(source.url), spool))


def _unpack_and_keep(
    stop: threading.Event, context: ServerContext, spool: Spool, name: str, entrypoint: str | None
) -> tuple[Entry, ...]:
    """The files of a download. The download itself is kept too, so that its digest can be verified later."""
    entries = unpack(stop, context, spool, name, entrypoint)
    if spool.path.exists():
        context.blobs.keep(spool.path, BlobDescriptor(spool.digest, spool.size))
    return entries


def _source_record(url: str, spool: Spool) -> Mapping[str, Any]:
    return {"url": url, "sha256sum": spool.digest.removeprefix("sha256:")}


def _verify_sha256(spool: Spool, sha256: str) -> None:
    found = spool.digest.removeprefix("sha256:")
    if found != sha256:
        raise Invalid.of("the version", (Fault("sha256sum", f"the file's sha256 is {found}, not {sha256}"),))


async def _ingest_git(context: ServerContext, source: GitFiles, actor: Actor) -> IngestedFiles:
    limits = context.limits
    async with git.fetch_commit(
        source.repo, source.ref, context.blobs.root / "incoming", most=limits.upload_bytes, private=actor.admin,
        admin=actor.admin,
    ) as checkout:  # fmt: skip
        entries = await in_thread(_read_checkout, context, checkout, source.path)
        record = {"repo": source.repo.url, "ref": source.ref, "commit": checkout.commit}
        return IngestedFiles(entries, git=record)


def _read_checkout(
    stop: threading.Event, context: ServerContext, checkout: git.Checkout, path: str
) -> tuple[Entry, ...]:
    with context.blobs.batch(stop) as put:
        # Git compresses well, so its size is no basis for a limit on the unpacked size.
        intake = Intake(put, context.limits, context.limits.unpacked_bytes)
        git.read_tree(checkout, path, intake)
        return intake.entries()


async def _ingest_uploaded(
    context: ServerContext, model: Ref, actor: Actor, files: tuple[UploadedFile, ...]
) -> tuple[Entry, ...]:
    if len(files) > context.limits.files:
        raise Invalid.of("the version", (Fault("files", f"more than {context.limits.files:,} files"),))
    missing = await find_unavailable(context, model, actor, (file.digest for file in files))
    faults = [
        Fault(f"files[{index}].digest", f"the content of '{file.path}' has not been uploaded")
        for index, file in enumerate(files)
        if file.digest in missing
    ]
    if faults:
        raise _not_uploaded_error(model, tuple(faults))
    entries = await asyncio.to_thread(_to_entries, context.blobs, files)
    faults = [
        Fault(f"files[{index}].size", f"it has {entry.size} bytes, not {file.size}")
        for index, (file, entry) in enumerate(zip(files, entries, strict=True))
        if file.size not in (None, entry.size)
    ]
    if sum(entry.size for entry in entries) > context.limits.unpacked_bytes:
        faults.append(Fault("files", f"more than {context.limits.unpacked_bytes:,} bytes in total"))
    if faults:
        raise Invalid.of("the version", tuple(faults))
    return tuple(sorted(entries, key=lambda entry: entry.path))


def _not_uploaded_error(model: Ref, faults: tuple[Fault, ...]) -> Invalid:
    hint = f"POST /model/{model.name}/upload lists missing files; PUT /model/{model.name}/upload/<digest> uploads one"
    return Invalid("the version is invalid: " + "; ".join(map(str, faults[:20])), hint=hint, faults=faults)


def _to_entries(blobs: FileBlobs, files: tuple[UploadedFile, ...]) -> tuple[Entry, ...]:
    return tuple(Entry(file.path, file.digest, blobs.head(file.digest).size) for file in files)


async def _digests_of_model(store: Store, model: Ref) -> set[str]:
    """All digests in versions of this model."""
    found: set[str] = set()
    async with store.snapshot() as moment:
        async for item in each(moment, "ModelVersion", model_family.where_model(model), limit=500):
            found |= {entry.digest for entry in entries_of(item.spec)}
    return found
