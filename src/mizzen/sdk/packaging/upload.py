"""Registering a version from local files, a git revision, or a download.

A plane on this machine gets only the path, and reads the files itself. Other planes get the files by digest: only those
they lack, in chunks, resumed where an upload broke off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mizzen import errors
from mizzen.blobs.fs import content, folders
from mizzen.sdk.api.session import escape, without_none
from mizzen.sdk.packaging import requirements as packaging_requirements

if TYPE_CHECKING:
    from mizzen.sdk.api.session import Calls
    from mizzen.sdk.packaging.requirements import Required

TIMEOUT: Final = 900.0
"""Seconds to wait for the plane to fetch, unpack and store a version."""
PIECE: Final = 8 << 20
CREATED: Final = 201
AT_ONCE: Final = 4
_ATTEMPTS: Final = 8
_PAUSE: Final = 0.2

Progress = Callable[[int, int | None], None]
"""Called with the bytes uploaded so far, and the total."""


async def add_version(
    plane: Calls,
    model: str,
    source: Any = None,
    *,
    git: str | Mapping[str, str] | None = None,
    url: str | None = None,
    sha256: str | None = None,
    version: str | int | None = None,
    framework: str | None = None,
    entrypoint: str | None = None,
    requirements: Required | None = None,
    python: str | None = None,
    labels: Mapping[str, str] | None = None,
    training: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Register a version, the next one unless `version` names it. Returns the version, and `created`: False if exactly
    this one already existed.

    `source`: the path of a file, a folder or an archive; `git+<url>[@ref][#path]`, or {"git": {"repo", "ref", "path"}};
    {"downloadURL", "sha256sum"}. `requirements`: Python packages as for pip, or a file of them; the default is a
    requirements.txt among the files. `python`: such as 3.12, if not the plane's own. `training`: this is code to train,
    so the files to serve need not exist yet. Raises NotFound, Invalid.
    """
    chosen = choose_source(source, git, url, sha256)
    options = without_none(
        framework=framework,
        entrypoint=entrypoint,
        requirements=await asyncio.to_thread(packaging_requirements.to_list, requirements),
        python=python,
        labels=dict(labels) if labels else None,
        training=training or None,
    )
    body = {**await _build_body(plane, model, chosen, progress or _ignore_progress), **options}
    path = f"/model/{escape(model)}/version/{escape('auto' if version in (None, '') else version)}"
    code, answer = await plane.answer("POST", path, body=body, params=plane.within(), timeout=TIMEOUT)
    return {**answer, "created": code == CREATED}


def choose_source(
    source: Path | str | Mapping[str, Any] | None,
    git: str | Mapping[str, str] | None,
    url: str | None,
    sha256: str | None,
) -> Path | str | Mapping[str, Any]:
    """Return the one source of the three possible. Raises Invalid if not exactly one is given."""
    if sum(given is not None for given in (source, git, url)) != 1:
        raise errors.Invalid("a version needs exactly one source", hint="give a path, git=, or url= with sha256=")
    if url is not None:
        if sha256 is None:
            raise errors.Invalid("url needs sha256, to verify the download")
        return {"downloadURL": url, "sha256sum": sha256}
    if git is not None:
        return {"git": dict(git)} if isinstance(git, Mapping) else {"git": _parse_git(git)}
    assert source is not None
    return source


async def _build_body(
    plane: Calls, model: str, source: Path | str | Mapping[str, Any], progress: Progress
) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source
    text = str(source)
    if text.startswith("git+"):
        return {"git": _parse_git(text)}
    path = Path(text).absolute()  # noqa: ASYNC240 - reads no file
    if await asyncio.to_thread(_is_ours, plane):
        return {"path": str(path)}
    files = await asyncio.to_thread(_list_files, path)
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
        """Upload until the plane has all files. Raises MizzenError."""
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
        path = f"/model/{escape(self.model)}/upload"
        body = {"files": [file.wire() for file in self.files]}
        answer = await self.plane.request("POST", path, body=body, params=self.plane.within())
        return frozenset(answer["missing"])

    async def _send(self, file: _File, tell: Callable[[int], None]) -> None:
        """Send all chunks; after a broken connection or an aborted upload, resume at the plane's offset."""
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
        return offset if offset < file.size else 0  # complete but never verified: the final request needs a chunk

    async def _put(self, file: _File, offset: int) -> dict[str, Any]:
        data = await asyncio.to_thread(_read_chunk, file, offset)
        return await self._call(file, data, f"bytes {offset}-{offset + len(data) - 1}/{file.size}" if data else None)

    async def _call(self, file: _File, data: bytes, span: str | None) -> dict[str, Any]:
        path = f"/model/{escape(self.model)}/upload/{file.digest}"
        headers = {"content-range": span} if span else {}
        return await self.plane.request(
            "PUT", path, body=data, headers=headers, params=self.plane.within(), timeout=TIMEOUT
        )


def _read_chunk(file: _File, offset: int) -> bytes:
    with file.place.open("rb") as opened:
        opened.seek(offset)
        data = opened.read(PIECE)
    if not data and file.size:
        raise errors.Invalid(f"{file.place} changed while it was sent", hint="try again when no process writes to it")
    return data


def _list_files(path: Path) -> tuple[_File, ...]:
    """Return the files to send: the same ones that a plane on this machine would read."""
    found = folders.files_of(path)
    archive = len(found) == 1 and path.is_file() and _is_archive(path)
    return tuple(
        _File(name, place, content.digest_of(place), place.stat().st_size, archive=archive) for name, place in found
    )


def _is_archive(path: Path) -> bool:
    from mizzen.blobs.ingest import archives  # with its imports, half of the CLI's start time

    with path.open("rb") as file:
        return archives.should_unpack(file, path.name)


def _is_ours(plane: Calls) -> bool:
    """Return whether the plane runs here and the caller is its admin: then it can read local paths."""
    place = plane.place
    if place.data_dir is None or place.token is None:
        return False
    try:
        return (place.data_dir / "admin-token").read_text().strip() == place.token
    except OSError:
        return False


def _parse_git(text: str) -> dict[str, str]:
    repo, _, path = text.removeprefix("git+").partition("#")
    head, at, ref = repo.rpartition("@")
    # An @ before the path belongs to the user part, not to the ref.
    if not at or "/" in ref.partition("/")[0] or ":" in ref or "/" not in head.partition("//")[2]:
        return _drop_empty(repo=repo, path=path)
    return _drop_empty(repo=head, ref=ref, path=path)


def _drop_empty(**fields: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def _ignore_progress(_done: int, _total: int | None) -> None:
    pass
