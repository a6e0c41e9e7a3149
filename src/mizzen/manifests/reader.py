"""Reads files, folders, stdin and texts as documents: each is one object, in the form that a plane accepts.

A text that cannot be read becomes a document with that fault, so that the others are still checked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from mizzen.errors import BadRequest, Fault, NotFound
from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema.findings import Findings, Warn
from mizzen.kinds.schema.resource import API_VERSION
from mizzen.manifests import api_versions, nulls, strict_parse
from mizzen.manifests.strict_yaml import LoadedDocument

SUFFIXES: Final = (".yaml", ".yml", ".json")
STDIN: Final = "-"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest."""

    source: str
    """The path of the file, `stdin`, or another description of its origin."""
    line: int
    """The line where it begins, from 1; 0 if there are no lines."""
    data: Mapping[str, Any]
    """The object to send, in `mizzen.dev/v1alpha1` with the kind's own name. Empty if it cannot be read."""
    warnings: tuple[Warn, ...] = ()
    faults: tuple[Fault, ...] = ()
    kind: Kind | None = None
    """The kind, even if it was misspelled; None if it cannot be determined."""
    unquoted: Mapping[str, str] = field(default_factory=dict)
    """See `strict_yaml.LoadedDocument`."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        metadata = self.data.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}

    @property
    def name(self) -> str:
        name = self.metadata.get("name")
        return name if isinstance(name, str) else ""

    @property
    def where(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source

    @property
    def place(self) -> str:
        """Its origin and identity, for messages; only its origin if it cannot be read."""
        if self.data:
            return f"{self.where}: {self}"
        return self.source if self.line == 1 else self.where

    def __str__(self) -> str:
        """`Kind/name`, as far as known."""
        kind = self.kind.name if self.kind else str(self.data.get("kind") or "object")
        return f"{kind}/{self.name or '?'}"


def read(place: str | os.PathLike[str]) -> list[Document]:
    """The documents of a file, of all manifests in a folder, or of stdin (`-`). Raises NotFound if there are none."""
    return read_place(place, read_text)


def read_place(place: str | os.PathLike[str], read_one: Callable[[str | bytes, str], Iterable[T]]) -> list[T]:
    """All objects of a file, a folder or stdin; `read_one` takes a text and its origin. Raises NotFound for none."""
    found = [one for source, text in texts(place) for one in read_one(text, source)]
    if not found:
        raise NotFound(
            f"no objects in {'stdin' if place == STDIN else Path(place)}",
            hint="a file must contain YAML or JSON; in a folder, *.yaml, *.yml and *.json are read",
        )
    return found


def texts(place: str | os.PathLike[str]) -> Iterator[tuple[str, str | bytes]]:
    """The texts of a file, of all manifests in a folder, or of stdin, each with its origin."""
    if place == STDIN:
        yield "stdin", _stdin()
        return
    path = Path(place)
    for file in manifests_in(path) if path.is_dir() else (path,):
        yield str(file), _content(file)


def read_text(text: str | bytes, source: str = "text") -> list[Document]:
    """The documents of a text: YAML with `---` between them, or JSON."""
    return [_document(source, one) for one in load_objects(text)]


def read_data(data: Mapping[str, Any] | Iterable[Mapping[str, Any]], source: str = "object") -> list[Document]:
    """The documents of plain data."""
    objects = [data] if isinstance(data, Mapping) else list(data)
    return [_document(source, each) for one in objects for each in _split_lists(LoadedDocument(one, 0))]


def load_objects(text: str | bytes) -> Iterator[LoadedDocument]:
    """The objects of a text, with those of lists. An unreadable text is one document with that fault."""
    try:
        loaded = strict_parse.read_documents(text.encode(errors="surrogatepass") if isinstance(text, str) else text)
    except strict_parse.Unreadable as error:
        loaded = [LoadedDocument({}, 1, fault=str(error))]
    for one in loaded:
        yield from _split_lists(one)


def manifests_in(folder: Path) -> Iterator[Path]:
    """*.yaml, *.yml and *.json at every depth, sorted; hidden files and folders (.git, .mizzen) are skipped."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(files) if name.endswith(SUFFIXES) and not name.startswith("."))


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise NotFound(f"no file or folder '{file}'") from error
    except OSError as error:
        raise BadRequest(f"cannot read {file}: {error.strerror}") from error


def _stdin() -> str:
    if sys.stdin is None:
        raise BadRequest("stdin is closed", hint="pass a file, or redirect one: … < file.yaml")
    return sys.stdin.read()


def _split_lists(loaded: LoadedDocument) -> Iterator[LoadedDocument]:
    """The document itself; or each item of a list such as `mizzen get -o yaml` prints."""
    value = loaded.value
    if not isinstance(value, Mapping):
        yield LoadedDocument({}, loaded.line, fault=f"must be an object, not {strict_parse.type_name(value)}")
    elif str(value.get("kind", "")).endswith("List") and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            start = f"items[{index}]."
            unquoted = {
                path.removeprefix(start): text for path, text in loaded.unquoted.items() if path.startswith(start)
            }
            yield from _split_lists(LoadedDocument(item, loaded.line, unquoted))
    else:
        yield loaded


def _document(source: str, loaded: LoadedDocument) -> Document:
    if loaded.fault:
        return Document(source, loaded.line, {}, faults=(Fault("", loaded.fault),))
    kind, found = api_versions.resolve(loaded.value.get("apiVersion"), loaded.value.get("kind"))
    data = {"apiVersion": API_VERSION, "kind": "", **loaded.value}
    data["apiVersion"] = API_VERSION
    data["metadata"] = {} if data.get("metadata") is None else data["metadata"]
    data["spec"] = {} if data.get("spec") is None else data["spec"]
    data.pop("status", None)  # people send back objects as they received them
    if kind is not None:
        data["kind"] = kind.name
        data["spec"] = nulls.fill_present(kind.spec, data["spec"])
    odd = tuple(_read_otherwise(loaded.unquoted, data))
    found = Findings.of((*found, *odd))
    return Document(source, loaded.line, data, found.warnings, found.faults, kind, loaded.unquoted)


def _read_otherwise(unquoted: Mapping[str, str], data: Mapping[str, Any]) -> Iterator[Warn]:
    """A warning for each text that kubectl would read as another type."""
    for path, text in unquoted.items():
        if text in ("y", "Y", "n", "N") and not path.startswith("status"):
            truth = "true" if text in "yY" else "false"
            yield Warn(path, f"kubectl reads an unquoted {text} as {truth}; quote it: '{text}'")
