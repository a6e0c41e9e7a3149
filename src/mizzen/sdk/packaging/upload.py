"""Making a version of what somebody has: files here, a git revision, or something to download.

Files are named to a plane of this machine, which reads them itself. To any other they are sent by digest: only what it
lacks, in pieces, and from where it broke off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mizzen import errors
from mizzen.blobs.fs import content, folders
from mizzen.sdk.api.session import escaped
from mizzen.sdk.packaging import requirements as packaging_requirements

if TYPE_CHECKING:
    from mizzen.sdk.api.session import Calls
    from mizzen.sdk.packaging.requirements import Required

TIMEOUT: Final = 900.0
"""Seconds until the plane has fetched, unpacked and stored a version."""
PIECE: Final = 8 << 20
CREATED: Final = 201
AT_ONCE: Final = 4
_ATTEMPTS: Final = 8
_PAUSE: Final = 0.2

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there, of how many."""


async def add_version(
    plane: Calls,
    model: str,
    source: Path | str | Mapping[str, Any],
    *,
    version: str | None = None,
    framework: str | None = None,
    entrypoint: str | None = None,
    requirements: Required | None = None,
    python: str | None = None,
    labels: Mapping[str, str] | None = None,
    training: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Register a version, the next one unless `version` names it. The version, as the plane tells it, and `created`:
    False when exactly this one was there already.

    `source`: the path of a file, a folder or an archive; `git+<url>[@ref][#path]`, or {"git": {"repo", "ref", "path"}};
    {"downloadURL", "sha256sum"}. `requirements`: Python packages as for pip, or a file of them; without, those of a
    requirements.txt among the files. `python`: such as 3.12, for another one than the plane's. `training`: it is to be
    trained, so what is loaded to serve it need not be there yet. NotFound, Invalid.
    """
    said = {
        "framework": framework,
        "entrypoint": entrypoint,
        "requirements": await asyncio.to_thread(packaging_requirements.listed, requirements),
        "python": python,
        "labels": dict(labels) if labels else None,
        "training": training or None,
    }
    options = {name: value for name, value in said.items() if value is not None}
    body = await _body(plane, model, source, progress or _silent)
    path = f"/model/{escaped(model)}/version/{escaped(version or 'auto')}"
    sent = {**body, **options}
    code, answer = await plane.answer("POST", path, body=sent, params=plane.within(), timeout=TIMEOUT)
    return {**answer, "created": code == CREATED}


def sourced(
    source: Path | str | Mapping[str, Any] | None,
    git: str | Mapping[str, str] | None,
    url: str | None,
    sha256: str | None,
) -> Path | str | Mapping[str, Any]:
    """The one source of the three that may be given. Invalid when it is not one."""
    if sum(given is not None for given in (source, git, url)) != 1:
        raise errors.Invalid("a version is made of one source", hint="give a path, or git=, or url= with sha256=")
    if url is not None:
        if sha256 is None:
            raise errors.Invalid("url needs sha256: what is fetched must be what you mean")
        return {"downloadURL": url, "sha256sum": sha256}
    if git is not None:
        return {"git": dict(git)} if isinstance(git, Mapping) else {"git": _git(git)}
    assert source is not None
    return source


async def _body(
    plane: Calls, model: str, source: Path | str | Mapping[str, Any], progress: Progress
) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source
    text = str(source)
    if text.startswith("git+"):
        return {"git": _git(text)}
    path = Path(text).absolute()  # noqa: ASYNC240 - reads no file
    if await asyncio.to_thread(_is_ours, plane):
        return {"path": str(path)}
    files = await asyncio.to_thread(_files, path)
    await _Sending(plane, model, files, progress).run()
    if len(files) == 1 and files[0].archive:
        return {"archive": files[0].digest}
    return {"files": [file.wire() for file in files]}


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    place: Path
    digest: str
    size: int
    archive: bool = False

    def wire(self) -> dict[str, Any]:
        return {"path": self.path, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True)
class _Sending:
    plane: Calls
    model: str
    files: tuple[_File, ...]
    progress: Progress

    async def run(self) -> None:
        """Returns when the plane has all files. MizzenError."""
        missing = await self._missing()
        wanted = {file.digest: file for file in self.files if file.digest in missing}
        total = sum(file.size for file in wanted.values())
        done = dict.fromkeys(wanted, 0)

        def tell(digest: str, offset: int) -> None:
            done[digest] = offset
            self.progress(sum(done.values()), total)

        turns = asyncio.Semaphore(AT_ONCE)

        async def one(file: _File) -> None:
            async with turns:
                await self._send(file, lambda offset: tell(file.digest, offset))

        self.progress(0, total)
        try:
            async with asyncio.TaskGroup() as group:
                for file in wanted.values():
                    group.create_task(one(file))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _missing(self) -> frozenset[str]:
        path = f"/model/{escaped(self.model)}/upload"
        body = {"files": [file.wire() for file in self.files]}
        answer = await self.plane.request("POST", path, body=body, params=self.plane.within())
        return frozenset(answer["missing"])

    async def _send(self, file: _File, tell: Callable[[int], None]) -> None:
        """All pieces; after a broken connection, or when somebody broke off before, from where the plane is."""
        offset, left, best = None if file.size > PIECE else 0, _ATTEMPTS, -1
        while True:
            try:
                if offset is None or left < _ATTEMPTS:
                    offset = await self._offset(file)
                    tell(offset)
                answer = await self._put(file, offset)
            except (errors.Unavailable, errors.DeadlineExceeded, errors.Conflict):
                left -= 1
                if not left:
                    raise
                await asyncio.sleep(_PAUSE * 2 ** (_ATTEMPTS - left))
                continue
            offset = int(answer["offset"])
            tell(offset)
            if answer["complete"]:
                return
            if offset > best:
                best, left = offset, _ATTEMPTS

    async def _offset(self, file: _File) -> int:
        offset = int((await self._call(file, b"", f"bytes */{file.size}"))["offset"])
        return offset if offset < file.size else 0  # all is there but was never looked at: the last word is a piece

    async def _put(self, file: _File, offset: int) -> dict[str, Any]:
        data = await asyncio.to_thread(_piece, file, offset)
        return await self._call(file, data, f"bytes {offset}-{offset + len(data) - 1}/{file.size}" if data else None)

    async def _call(self, file: _File, data: bytes, span: str | None) -> dict[str, Any]:
        path = f"/model/{escaped(self.model)}/upload/{file.digest}"
        headers = {"content-range": span} if span else {}
        return await self.plane.request(
            "PUT", path, body=data, headers=headers, params=self.plane.within(), timeout=TIMEOUT
        )


def _piece(file: _File, offset: int) -> bytes:
    with file.place.open("rb") as opened:
        opened.seek(offset)
        data = opened.read(PIECE)
    if not data and file.size:
        raise errors.Invalid(f"{file.place} changed while it was sent", hint="try again when nobody writes to it")
    return data


def _files(path: Path) -> tuple[_File, ...]:
    """What is to be sent; the same files that a plane of this machine would read."""
    found = folders.files_of(path)
    archive = len(found) == 1 and path.is_file() and _is_archive(path)
    return tuple(
        _File(name, place, content.digest_of(place), place.stat().st_size, archive=archive) for name, place in found
    )


def _is_archive(path: Path) -> bool:
    from mizzen.blobs.ingest import archives  # with what it stands on, half of a start of the CLI

    with path.open("rb") as file:
        return archives.is_meant(file, path.name)


def _is_ours(plane: Calls) -> bool:
    """Does the plane run here, and are we its admin? Then it can read what we name."""
    place = plane.place
    if place.data_dir is None or place.token is None:
        return False
    try:
        return (place.data_dir / "admin-token").read_text().strip() == place.token
    except OSError:
        return False


def _git(text: str) -> dict[str, str]:
    repo, _, path = text.removeprefix("git+").partition("#")
    head, at, ref = repo.rpartition("@")
    # An @ before the path is who asks, not what for.
    if not at or "/" in ref.partition("/")[0] or ":" in ref or "/" not in head.partition("//")[2]:
        return _known(repo=repo, path=path)
    return _known(repo=head, ref=ref, path=path)


def _known(**fields: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def _silent(_done: int, _total: int | None) -> None:
    pass
