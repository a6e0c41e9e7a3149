"""Parses requests for a new version: the source of its files, and its options.

A JSON body names one source: `path`, `git`, `downloadURL`, `files` or `archive`. Any other body is the files
themselves; the options are then in the query or in other fields of the form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from mizzen.blobs.fs import content
from mizzen.blobs.ingest import download, git
from mizzen.blobs.ingest.intake import path_fault
from mizzen.errors import Fault, Invalid
from mizzen.kinds.schema.findings import unknown
from mizzen.kinds.text import requirements

TEXTS = ("framework", "entrypoint", "python", "image", "parentJob")
OPTIONS = (*TEXTS, "labels", "annotations", "requirements", "training")
SOURCES = ("path", "git", "downloadURL", "files", "archive")
MODIFIERS = ("sha256sum", "insecureSkipVerify")

MAX_SIZE = 1 << 63
"""An upper bound for file sizes, so that a request cannot contain arbitrarily large numbers."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class LocalFiles:
    path: Path
    sha256: str | None = None
    """If given, the path must be a single file with this digest."""


@dataclass(frozen=True, slots=True)
class GitFiles:
    repo: git.Repository
    ref: str
    path: str


@dataclass(frozen=True, slots=True)
class Download:
    url: str = field(repr=False)
    sha256: str | None


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that was uploaded before, named by its digest."""

    path: str
    digest: str
    size: int | None


@dataclass(frozen=True, slots=True)
class UploadedArchive:
    """An archive that was uploaded before, named by its digest."""

    digest: str


Source: TypeAlias = LocalFiles | GitFiles | Download | UploadedArchive | tuple[UploadedFile, ...] | None
"""None: the version consists of an image only."""


@dataclass(frozen=True, slots=True)
class VersionOptions:
    """Options that the caller gave with the files, by wire name. The plane detects the others."""

    values: Mapping[str, Any]

    @property
    def framework(self) -> str | None:
        return self.values.get("framework") or None

    @property
    def entrypoint(self) -> str | None:
        return self.values.get("entrypoint") or None

    @property
    def training(self) -> bool:
        """Whether it must be trained before it is served: the files to load do not exist yet."""
        return self.values.get("training") in (True, "true")


def decode(body: Mapping[str, Any], query_options: Mapping[str, str]) -> tuple[Source, VersionOptions]:
    """Parse a body; `query_options` are from the query. Raises Invalid with all faults of both."""
    faults = [*unknown(body, (*SOURCES, *MODIFIERS, *OPTIONS))]
    body = {name: value for name, value in body.items() if value is not None}
    faults += [Fault(name, "is in the query and in the body; give it once") for name in query_options if name in body]
    body = {**query_options, **body}
    faults += [Fault(name, "must be a text") for name in (*TEXTS, "path") if _is_not_text(body.get(name))]
    if body.get("training") not in (None, True, False, "true", "false"):
        faults.append(Fault("training", "must be true or false"))
    source: Source = None
    sources = [name for name in SOURCES if body.get(name) not in (None, "")]
    if len(sources) > 1:
        faults.append(Fault("", f"give only one of {', '.join(sources)}"))
    elif sources:
        try:
            source = _READERS[sources[0]](body)
        except Invalid as error:
            faults += error.faults
    elif not body.get("image"):
        faults.append(Fault("path", f"required, or another of {', '.join(SOURCES)}; or send an archive as the body"))
    faults += [
        Fault(name, "is valid only with downloadURL")
        for name in MODIFIERS
        if name in body and "downloadURL" not in sources
    ]
    if faults:
        raise Invalid.of("the version", tuple(faults))
    return source, VersionOptions({name: body[name] for name in OPTIONS if body.get(name) is not None})


def options_from_texts(texts: Mapping[str, str]) -> VersionOptions:
    """Options sent with an archive, all as text: labels as `a=b,c=d`, requirements as in a requirements file."""
    faults: list[Fault] = []
    options: dict[str, Any] = {name: texts[name] for name in (*TEXTS, "training") if texts.get(name)}
    for name in ("labels", "annotations"):
        if texts.get(name):
            pairs = [pair.partition("=") for pair in texts[name].split(",")]
            faults += [Fault(name, f"'{pair[0]}' has no value; write key=value") for pair in pairs if not pair[1]]
            options[name] = {key.strip(): value.strip() for key, _, value in pairs}
    if texts.get("requirements"):
        try:
            options["requirements"] = list(requirements.read(texts["requirements"]))
        except ValueError as error:
            faults.append(Fault("requirements", str(error)))
    if faults:
        raise Invalid.of("the version", tuple(faults))
    return VersionOptions(options)


def files_of(body: Mapping[str, Any]) -> tuple[UploadedFile, ...]:
    """The files of a body that has no other fields. Raises Invalid."""
    faults = unknown(body, ("files",))
    try:
        found = _read_files({"files": None, **body})
    except Invalid as error:
        faults += error.faults
    if faults:
        raise Invalid.of("the body", faults)
    return found


def _read_path(body: Mapping[str, Any]) -> Source:
    path = body["path"]
    if not isinstance(path, str):
        raise Invalid.of("", (Fault("path", "must be a text"),))
    if not Path(path).is_absolute() or "\0" in path:
        raise Invalid.of("", (Fault("path", f"{path[:200]!r} is not an absolute path on the plane's machine"),))
    return LocalFiles(Path(path))


def _read_git(body: Mapping[str, Any]) -> Source:
    git_fields = body["git"]
    if not isinstance(git_fields, Mapping):
        raise Invalid.of("", (Fault("git", "must be an object: {repo, ref}"),))
    faults = [*unknown(git_fields, ("repo", "ref", "path"), "git")]
    faults += [
        Fault(f"git.{name}", "must be a text") for name in ("repo", "ref", "path") if _is_not_text(git_fields.get(name))
    ]
    if not git_fields.get("repo"):
        faults.append(Fault("git.repo", "required"))
    if faults:
        raise Invalid.of("", tuple(faults))
    return GitFiles(git.repository(git_fields["repo"]), git_fields.get("ref") or "HEAD", git_fields.get("path") or "")


def _read_download(body: Mapping[str, Any]) -> Source:
    url, sha256, skip = (body.get(name) for name in ("downloadURL", *MODIFIERS))
    faults = []
    if not isinstance(url, str):
        raise Invalid.of("", (Fault("downloadURL", "must be a text"),))
    if skip not in (None, True, False):
        faults.append(Fault("insecureSkipVerify", "must be true or false"))
    if sha256 is None and not skip:
        faults.append(Fault("sha256sum", "required to verify the file; insecureSkipVerify skips that check"))
    elif sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256.lower())):
        faults.append(Fault("sha256sum", "must be the sha256 of the file: 64 hexadecimal digits"))
    if faults:
        raise Invalid.of("", tuple(faults))
    wanted = sha256.lower() if sha256 else None
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path or "\0" in unquote(parts.path):
            raise Invalid.of("", (Fault("downloadURL", "must be file:///path for a file on the plane's machine"),))
        return LocalFiles(Path(unquote(parts.path)), wanted)
    download.check_url(url)
    return Download(url, wanted)


def _read_files(body: Mapping[str, Any]) -> tuple[UploadedFile, ...]:
    items = body["files"]
    if not isinstance(items, list) or not items:
        raise Invalid.of("", (Fault("files", "must be a list of {path, digest}"),))
    faults: list[Fault] = []
    found = tuple(_read_file(item, f"files[{index}]", faults) for index, item in enumerate(items))
    if faults:
        raise Invalid.of("", tuple(faults[:20]))
    return found


def _read_archive(body: Mapping[str, Any]) -> Source:
    digest = body["archive"]
    if not isinstance(digest, str) or not content.DIGEST.fullmatch(digest):
        raise Invalid.of("", (Fault("archive", "must be sha256: and 64 hexadecimal digits"),))
    return UploadedArchive(digest)


def _read_file(item: Any, at: str, faults: list[Fault]) -> UploadedFile:
    if not isinstance(item, Mapping):
        faults.append(Fault(at, "must be an object: {path, digest}"))
        return UploadedFile("", "", None)
    faults += unknown(item, ("path", "digest", "size"), at)
    path, digest, size = item.get("path"), item.get("digest"), item.get("size")
    wrong = "must be a text" if not isinstance(path, str) else path_fault(path) if path else "required"
    if wrong:
        faults.append(Fault(f"{at}.path", wrong))
    if not isinstance(digest, str) or not content.DIGEST.fullmatch(digest):
        faults.append(Fault(f"{at}.digest", "must be sha256: and 64 hexadecimal digits"))
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < MAX_SIZE):
        faults.append(Fault(f"{at}.size", "must be a number of bytes"))
    return UploadedFile(str(path), str(digest), size if isinstance(size, int) else None)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Source]] = {
    "path": _read_path,
    "git": _read_git,
    "downloadURL": _read_download,
    "files": _read_files,
    "archive": _read_archive,
}


def _is_not_text(value: Any) -> bool:
    return value is not None and not isinstance(value, str)
