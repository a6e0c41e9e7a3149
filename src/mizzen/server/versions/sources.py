"""What a new version is made of: where its files are to be taken from, and what was said about them.

A body in JSON names one source: `path`, `git`, `downloadURL`, `files` or `archive`. Anything else brings the files
itself, and what is to be said about them stands beside, in the query or in other fields of the form.
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

LARGEST = 1 << 63
"""Nobody has a file of so many bytes, and nobody's numbers go on for ever."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class LocalFiles:
    path: Path
    sha256: str | None = None
    """Of the one file it must be, then."""


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
class Sent:
    """A file that was sent before, named by its digest."""

    path: str
    digest: str
    size: int | None


@dataclass(frozen=True, slots=True)
class SentArchive:
    """An archive that was sent before, named by its digest."""

    digest: str


Source: TypeAlias = LocalFiles | GitFiles | Download | SentArchive | tuple[Sent, ...] | None
"""None: an image alone."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the caller said about the files, by its name on the wire. What they did not say is ours to find out."""

    options: Mapping[str, Any]

    @property
    def framework(self) -> str | None:
        return self.options.get("framework") or None

    @property
    def entrypoint(self) -> str | None:
        return self.options.get("entrypoint") or None

    @property
    def training(self) -> bool:
        """It is to be trained before it is served: what to load is not there yet."""
        return self.options.get("training") in (True, "true")


def decode(body: Mapping[str, Any], beside: Mapping[str, str]) -> tuple[Source, Said]:
    """Read a body; `beside` stands in the query. Raises Invalid with all faults of both."""
    faults = [*unknown(body, (*SOURCES, *MODIFIERS, *OPTIONS))]
    body = {name: value for name, value in body.items() if value is not None}
    faults += [Fault(name, "stands in the query and in the body: say it once") for name in beside if name in body]
    body = {**beside, **body}
    faults += [Fault(name, "must be a text") for name in (*TEXTS, "path") if _no_text(body.get(name))]
    if body.get("training") not in (None, True, False, "true", "false"):
        faults.append(Fault("training", "must be true or false"))
    source: Source = None
    given = [name for name in SOURCES if body.get(name) not in (None, "")]
    if len(given) > 1:
        faults.append(Fault("", f"only one of {', '.join(given)} can be given"))
    elif given:
        try:
            source = _READERS[given[0]](body)
        except Invalid as error:
            faults += error.faults
    elif not body.get("image"):
        faults.append(Fault("path", f"required, or another of {', '.join(SOURCES)}; or send an archive as the body"))
    faults += [
        Fault(name, "belongs to a downloadURL") for name in MODIFIERS if name in body and "downloadURL" not in given
    ]
    if faults:
        raise Invalid.of("the version", tuple(faults))
    return source, Said({name: body[name] for name in OPTIONS if body.get(name) is not None})


def from_texts(texts: Mapping[str, str]) -> Said:
    """What stands beside an archive, where everything is text: labels as `a=b,c=d`, requirements as in a file."""
    faults: list[Fault] = []
    options: dict[str, Any] = {name: texts[name] for name in (*TEXTS, "training") if texts.get(name)}
    for name in ("labels", "annotations"):
        if texts.get(name):
            pairs = [pair.partition("=") for pair in texts[name].split(",")]
            faults += [Fault(name, f"'{pair[0]}' has no value: write key=value") for pair in pairs if not pair[1]]
            options[name] = {key.strip(): value.strip() for key, _, value in pairs}
    if texts.get("requirements"):
        try:
            options["requirements"] = list(requirements.read(texts["requirements"]))
        except ValueError as error:
            faults.append(Fault("requirements", str(error)))
    if faults:
        raise Invalid.of("the version", tuple(faults))
    return Said(options)


def files_of(body: Mapping[str, Any]) -> tuple[Sent, ...]:
    """The files of a body that says nothing else. Raises Invalid."""
    faults = unknown(body, ("files",))
    try:
        found = _files({"files": None, **body})
    except Invalid as error:
        faults += error.faults
    if faults:
        raise Invalid.of("the body", faults)
    return found


def _path(body: Mapping[str, Any]) -> Source:
    path = body["path"]
    if not isinstance(path, str):
        raise Invalid.of("", (Fault("path", "must be a text"),))
    if not Path(path).is_absolute() or "\0" in path:
        raise Invalid.of("", (Fault("path", f"{path[:200]!r} is no absolute path on the plane's machine"),))
    return LocalFiles(Path(path))


def _git(body: Mapping[str, Any]) -> Source:
    said = body["git"]
    if not isinstance(said, Mapping):
        raise Invalid.of("", (Fault("git", "must be an object: {repo, ref}"),))
    faults = [*unknown(said, ("repo", "ref", "path"), "git")]
    faults += [Fault(f"git.{name}", "must be a text") for name in ("repo", "ref", "path") if _no_text(said.get(name))]
    if not said.get("repo"):
        faults.append(Fault("git.repo", "required"))
    if faults:
        raise Invalid.of("", tuple(faults))
    return GitFiles(git.repository(said["repo"]), said.get("ref") or "HEAD", said.get("path") or "")


def _download(body: Mapping[str, Any]) -> Source:
    url, sha256, skip = (body.get(name) for name in ("downloadURL", *MODIFIERS))
    faults = []
    if not isinstance(url, str):
        raise Invalid.of("", (Fault("downloadURL", "must be a text"),))
    if skip not in (None, True, False):
        faults.append(Fault("insecureSkipVerify", "must be true or false"))
    if sha256 is None and not skip:
        faults.append(Fault("sha256sum", "required: what the file must be; insecureSkipVerify takes whatever comes"))
    elif sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256.lower())):
        faults.append(Fault("sha256sum", "must be the sha256 of the file: 64 hexadecimal digits"))
    if faults:
        raise Invalid.of("", tuple(faults))
    wanted = sha256.lower() if sha256 else None
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path or "\0" in unquote(parts.path):
            raise Invalid.of("", (Fault("downloadURL", "must be file:///path for a file of the plane's machine"),))
        return LocalFiles(Path(unquote(parts.path)), wanted)
    download.checked(url)
    return Download(url, wanted)


def _files(body: Mapping[str, Any]) -> tuple[Sent, ...]:
    said = body["files"]
    if not isinstance(said, list) or not said:
        raise Invalid.of("", (Fault("files", "must be a list of {path, digest}"),))
    faults: list[Fault] = []
    found = tuple(_sent(item, f"files[{index}]", faults) for index, item in enumerate(said))
    if faults:
        raise Invalid.of("", tuple(faults[:20]))
    return found


def _archive(body: Mapping[str, Any]) -> Source:
    digest = body["archive"]
    if not isinstance(digest, str) or not content.DIGEST.fullmatch(digest):
        raise Invalid.of("", (Fault("archive", "must be sha256: and 64 hexadecimal digits"),))
    return SentArchive(digest)


def _sent(item: Any, at: str, faults: list[Fault]) -> Sent:
    if not isinstance(item, Mapping):
        faults.append(Fault(at, "must be an object: {path, digest}"))
        return Sent("", "", None)
    faults += unknown(item, ("path", "digest", "size"), at)
    path, digest, size = item.get("path"), item.get("digest"), item.get("size")
    wrong = "must be a text" if not isinstance(path, str) else path_fault(path) if path else "required"
    if wrong:
        faults.append(Fault(f"{at}.path", wrong))
    if not isinstance(digest, str) or not content.DIGEST.fullmatch(digest):
        faults.append(Fault(f"{at}.digest", "must be sha256: and 64 hexadecimal digits"))
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < LARGEST):
        faults.append(Fault(f"{at}.size", "must be a number of bytes"))
    return Sent(str(path), str(digest), size if isinstance(size, int) else None)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Source]] = {
    "path": _path,
    "git": _git,
    "downloadURL": _download,
    "files": _files,
    "archive": _archive,
}


def _no_text(value: Any) -> bool:
    return value is not None and not isinstance(value, str)
