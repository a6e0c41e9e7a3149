"""From a source to files in the blobs: what each kind of source may do, and for whom."""

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
from mizzen.blobs.file_store import Blob, Entry, FileBlobs
from mizzen.blobs.fs.cancellable_thread import Wanted, in_thread
from mizzen.blobs.fs.content import named
from mizzen.blobs.fs.folders import HasContent
from mizzen.blobs.ingest import archives, download, git
from mizzen.blobs.ingest.intake import Intake, path_fault, without_top
from mizzen.blobs.ingest.spool import Spool
from mizzen.blobs.ingest.uploads import Uploads
from mizzen.errors import Fault, Forbidden, Invalid, NotFound
from mizzen.kinds.schema.resource import Ref
from mizzen.server.admission import model_family
from mizzen.server.auth.authorization import actor_of
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.versions.sources import Download, GitFiles, LocalFiles, Sent, SentArchive, Source
from mizzen.stores.all_pages import each
from mizzen.stores.store import Store

CODE = frozenset({".py", ".pyx", ".pyi", ".ipynb", ".sh", ".toml", ".cfg", ".lock"})
CODE_NAMES = frozenset({"requirements.txt", "environment.yml", "conda.yaml", "Dockerfile", "Makefile"})


@dataclass(frozen=True, slots=True)
class Gathered:
    entries: tuple[Entry, ...]
    git: Mapping[str, Any] | None = None
    """repo, ref and commit, when they came from there."""
    source: Mapping[str, Any] | None = None
    """url and sha256sum, when they were fetched."""


async def gather(request: Request, model: Ref, source: Source, entrypoint: str | None) -> Gathered:
    """Store all files of a source. Invalid, Forbidden, TooLarge, BadRequest, Unavailable."""
    plane, actor = plane_of(request), actor_of(request)
    match source:
        case None:
            return Gathered(())
        case LocalFiles():
            _demand_local_admin(request, actor)
            return await in_thread(local, plane, source, entrypoint)
        case GitFiles():
            return await _from_git(plane, source, actor)
        case Download():
            return await downloaded(plane, source, actor, entrypoint)
        case SentArchive():
            if await not_to_be_named(plane, model, actor, [source.digest]):
                raise _not_sent(model, (Fault("archive", "its content has not been sent"),))
            return Gathered(await in_thread(_opened, plane, plane.blobs.path(source.digest), entrypoint))
    return Gathered(await _sent(plane, model, actor, source))


def unpacked(
    stop: threading.Event, plane: Plane, spool: Spool, file_name: str, entrypoint: str | None
) -> tuple[Entry, ...]:
    """The files of what was received. Blocking. A file that has a name and is no archive is a version by itself."""
    name = file_name.replace("\\", "/").rpartition("/")[2]
    content = spool.content()
    if name and not archives.is_meant(content, name):
        fault = path_fault(name)
        if fault:
            raise Invalid.of("the version", (Fault("code", f"the file's name: {fault}"),))
        blob = plane.blobs.keep(spool.path, Blob(spool.digest, spool.size))
        return (Entry(name, blob.digest, blob.size),)
    return _taken_apart(stop, plane, content, spool.size, entrypoint)


async def not_to_be_named(plane: Plane, model: Ref, actor: Actor, digests: Iterable[str]) -> frozenset[str]:
    """Those that are not stored, or that this actor cannot be shown to have: neither sent by them nor in this model."""
    wanted = frozenset(digests)
    if not actor.admin:
        uploads = Uploads(plane.blobs, plane.limits)
        sent = {digest for digest in wanted if uploads.has_sent(actor.name, digest)}
        strange = wanted - sent
        if strange:
            strange -= await _held_by(plane.store, model)
    else:
        strange = frozenset()
    return strange | await asyncio.to_thread(_absent, plane.blobs, wanted - strange)


def entries_of(spec: Mapping[str, Any]) -> tuple[Entry, ...]:
    """The files of a stored version. Stored specs may come from anywhere: what names no file is left out."""
    artifacts = spec.get("artifacts")
    found = (_entry(artifact) for artifact in artifacts) if isinstance(artifacts, list) else ()
    return tuple(entry for entry in found if entry is not None)


def code_digest(files: Iterable[HasContent]) -> str | None:
    """One digest for all that is code among these files; None when nothing is."""
    return _digest(file for file in files if is_code(file.path))


def data_digest(files: Iterable[HasContent]) -> str | None:
    return _digest(file for file in files if not is_code(file.path))


def is_code(path: str) -> bool:
    file = PurePosixPath(path)
    return file.suffix in CODE or file.name in CODE_NAMES


def _entry(artifact: Any) -> Entry | None:
    if not isinstance(artifact, Mapping):
        return None
    path, digest, size = (artifact.get(name) for name in ("path", "digest", "size"))
    if not isinstance(path, str) or not isinstance(digest, str):
        return None
    return Entry(path, digest, size if isinstance(size, int) else 0)


def _digest(files: Iterable[HasContent]) -> str | None:
    listing = sorted((file.path, file.digest) for file in files)
    return named(hashlib.sha256(json.dumps(listing).encode()).hexdigest()) if listing else None


def _demand_local_admin(request: Request, actor: Actor) -> None:
    """The plane reads any file its user can read: that is for those who could read it themselves."""
    host = request.client.host if request.client else ""
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = not host  # a unix socket
    if not actor.admin or not here:
        raise Forbidden(
            "only an admin on the plane's own machine may name files of it",
            hint="send the files: 'mizzen version add' does, or POST an archive of them",
        )


def local(stop: threading.Event, plane: Plane, source: LocalFiles, entrypoint: str | None) -> Gathered:
    """What the caller named is part of what they sent, so a missing file is Invalid."""
    try:
        if source.sha256 is None:
            if _is_archive(source.path):
                return Gathered(_opened(stop, plane, source.path, entrypoint))
            return Gathered(plane.blobs.collect(source.path, stop))
        with plane.blobs.spool(plane.limits.upload_bytes) as spool, source.path.open("rb") as file:
            spool.fill(Wanted(file, stop))
            _compare(spool, source.sha256)
            entries = _kept(stop, plane, spool, source.path.name, entrypoint)
            return Gathered(entries, source=_fetched(source.path.as_uri(), spool))
    except (NotFound, OSError) as error:
        said = error.message if isinstance(error, NotFound) else f"cannot read {source.path}: {error.strerror}"
        raise Invalid.of("the version", (Fault("path", said),)) from error


def _is_archive(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return archives.is_meant(file, path.name)


def _opened(stop: threading.Event, plane: Plane, path: Path, entrypoint: str | None) -> tuple[Entry, ...]:
    with path.open("rb") as file:
        return _taken_apart(stop, plane, file, path.stat().st_size, entrypoint)


def _taken_apart(
    stop: threading.Event, plane: Plane, file: BinaryIO, size: int, entrypoint: str | None
) -> tuple[Entry, ...]:
    with plane.blobs.batch(stop) as put:
        intake = Intake(put, plane.limits, size)
        archives.unpack(file, size, intake, plane.limits)
        return without_top(intake.entries(), entrypoint)


async def downloaded(
    plane: Plane,
    source: Download,
    actor: Actor,
    entrypoint: str | None,
    began: Callable[[Spool], None] = lambda _spool: None,
) -> Gathered:
    """`began` is handed what the download grows in."""
    with plane.blobs.spool(plane.limits.upload_bytes) as spool:
        began(spool)
        await download.fetch(source.url, spool, source.sha256, download.Policy(private=actor.admin))
        name = PurePosixPath(download.checked(source.url).path).name
        entries = await in_thread(_kept, plane, spool, name, entrypoint)
        return Gathered(entries, source=_fetched(download.shown(source.url), spool))


def _kept(stop: threading.Event, plane: Plane, spool: Spool, name: str, entrypoint: str | None) -> tuple[Entry, ...]:
    """The files of something that was fetched; it is kept itself, too, to be compared with what it should be."""
    entries = unpacked(stop, plane, spool, name, entrypoint)
    if spool.path.exists():
        plane.blobs.keep(spool.path, Blob(spool.digest, spool.size))
    return entries


def _fetched(url: str, spool: Spool) -> Mapping[str, Any]:
    return {"url": url, "sha256sum": spool.digest.removeprefix("sha256:")}


def _compare(spool: Spool, sha256: str) -> None:
    found = spool.digest.removeprefix("sha256:")
    if found != sha256:
        raise Invalid.of("the version", (Fault("sha256sum", f"the file has the sha256 {found}, not {sha256}"),))


async def _from_git(plane: Plane, source: GitFiles, actor: Actor) -> Gathered:
    limits = plane.limits
    async with git.fetched(
        source.repo, source.ref, plane.blobs.root / "incoming", most=limits.upload_bytes, private=actor.admin,
        admin=actor.admin,
    ) as checkout:  # fmt: skip
        entries = await in_thread(_read, plane, checkout, source.path)
        record = {"repo": source.repo.url, "ref": source.ref, "commit": checkout.commit}
        return Gathered(entries, git=record)


def _read(stop: threading.Event, plane: Plane, checkout: git.Checkout, path: str) -> tuple[Entry, ...]:
    with plane.blobs.batch(stop) as put:
        # Git packs well: its size says little about what is too much.
        intake = Intake(put, plane.limits, plane.limits.unpacked_bytes)
        git.read_tree(checkout, path, intake)
        return intake.entries()


async def _sent(plane: Plane, model: Ref, actor: Actor, files: tuple[Sent, ...]) -> tuple[Entry, ...]:
    if len(files) > plane.limits.files:
        raise Invalid.of("the version", (Fault("files", f"more than {plane.limits.files:,} files"),))
    missing = await not_to_be_named(plane, model, actor, (file.digest for file in files))
    faults = [
        Fault(f"files[{index}].digest", f"the content of '{file.path}' has not been sent")
        for index, file in enumerate(files)
        if file.digest in missing
    ]
    if faults:
        raise _not_sent(model, tuple(faults))
    entries = await asyncio.to_thread(_headed, plane.blobs, files)
    faults = [
        Fault(f"files[{index}].size", f"it has {entry.size} bytes, not {file.size}")
        for index, (file, entry) in enumerate(zip(files, entries, strict=True))
        if file.size not in (None, entry.size)
    ]
    if sum(entry.size for entry in entries) > plane.limits.unpacked_bytes:
        faults.append(Fault("files", f"more than {plane.limits.unpacked_bytes:,} bytes together"))
    if faults:
        raise Invalid.of("the version", tuple(faults))
    return tuple(sorted(entries, key=lambda entry: entry.path))


def _not_sent(model: Ref, faults: tuple[Fault, ...]) -> Invalid:
    hint = f"POST /model/{model.name}/upload says what is missing, PUT /model/{model.name}/upload/<digest> sends it"
    return Invalid("the version is invalid: " + "; ".join(map(str, faults[:20])), hint=hint, faults=faults)


def _headed(blobs: FileBlobs, files: tuple[Sent, ...]) -> tuple[Entry, ...]:
    return tuple(Entry(file.path, file.digest, blobs.head(file.digest).size) for file in files)


def _absent(blobs: FileBlobs, digests: Iterable[str]) -> frozenset[str]:
    return blobs.hold(digests)


async def _held_by(store: Store, model: Ref) -> set[str]:
    """All digests that versions of this model name."""
    found: set[str] = set()
    async with store.snapshot() as moment:
        async for item in each(moment, "ModelVersion", model_family.of_model(model), limit=500):
            found |= {entry.digest for entry in entries_of(item.spec)}
    return found
