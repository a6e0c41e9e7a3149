"""Detection of model formats by content. Nothing is unpickled: only the import names of a pickle are read.

Blocking. Reads are bounded: the beginning of a file, a number of opcodes of a pickle, and a zip directory of limited
size.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickletools
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from mizzen import frameworks
from mizzen.blobs.ingest import archives
from mizzen.errors import BadRequest

MOST_LOOKED_AT = 200
"""Maximum number of files to inspect; with more, the user must name the framework."""

_HEAD = 4096
_MOST_BYTES = 4 << 20
_MOST_OPCODES = 200_000
_PLUMBING = ("joblib", "numpy", "builtins", "copyreg", "_codecs")
"""Modules that nearly every pickle imports."""
_FIELDS = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42)
"""Tags of a ModelProto's fields."""
_OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_EXPORTED = ("/archive_format", "serialized_exported_program.json")
_GZIP, _ZLIB, _BZ2, _XZ = b"\x1f\x8b", b"\x78", b"BZh", b"\xfd7zXZ"


@dataclass(frozen=True, slots=True)
class Look:
    framework: str | None
    """None: the file cannot be served in this form; `advice` says how to convert it."""
    advice: str = ""


def look(file: Path, name: str) -> Look | None:
    """Detects the format of this file, called `name`; None if unknown."""
    suffix = Path(name).suffix.lower()
    with file.open("rb") as stream:
        head = stream.read(_HEAD)
    if not head:
        return _by_suffix(suffix)
    recognized = _look_into_zip(file, head) or _xgboost(head) or _lightgbm(head) or _onnx(head, suffix)
    return recognized or _match_plugin(head) or _pickle(file, head, suffix) or _by_suffix(suffix)


def find_marker_files(files: Iterable[str]) -> dict[str, str]:
    """Returns the topmost files whose names alone identify a folder, with their frameworks.

    Deeper ones are ignored: an MLflow folder may contain a SavedModel.
    """
    marks = {mark: one.name for one in frameworks.known().values() for mark in one.files}
    found = {file: marks[name] for file in files if (name := PurePosixPath(file).name) in marks}
    highest = min((file.count("/") for file in found), default=0)
    return {file: framework for file, framework in found.items() if file.count("/") == highest}


def detect_framework(files: Mapping[str, Path]) -> tuple[str, str]:
    """Returns the framework and the file to load; empty strings if unknown. `files`: content by path."""
    found = find_marker_files(files)
    if not found and len(files) <= MOST_LOOKED_AT:
        looks = {path: look(content, path) for path, content in files.items()}
        found = {path: one.framework for path, one in looks.items() if one is not None and one.framework}
    return next(((framework, path) for path, framework in found.items()), ("", "")) if len(found) == 1 else ("", "")


def _match_plugin(head: bytes) -> Look | None:
    """Matches the file signatures declared by plug-ins."""
    owners = [one.name for one in frameworks.known().values() if one.begins and head.startswith(one.begins)]
    return Look(owners[0]) if owners else None


def _by_suffix(suffix: str) -> Look | None:
    """Fallback for unrecognized content: only for suffixes of a single framework."""
    owners = [one.name for one in frameworks.known().values() if suffix in one.suffixes]
    if suffix in frameworks.PICKLES:
        return Look("sklearn")
    return Look(owners[0]) if len(owners) == 1 and suffix not in (".json", ".txt", ".model", ".py") else None


def _look_into_zip(file: Path, head: bytes) -> Look | None:
    if head.startswith(_OLD_TORCH):
        return Look(None, frameworks.NO_TORCH_PROGRAM)
    if not head.startswith(b"PK\x03\x04"):
        return None
    try:
        with file.open("rb") as stream:
            names = set(archives.zip_names(stream))
    except BadRequest:
        return None
    if "schema.json" in names:
        return Look("sklearn")
    if {"metadata.json", "config.json"} <= names:
        return Look("tensorflow")
    return _torch(names)


def _torch(names: set[str]) -> Look | None:
    """TorchScript stores its code next to its data, an exported program its graph; plain weights have neither."""
    if any("/code/" in name or name.endswith(_EXPORTED) for name in names):
        return Look("pytorch")
    return Look(None, frameworks.NO_TORCH_PROGRAM) if any(name.endswith("/data.pkl") for name in names) else None


def _xgboost(head: bytes) -> Look | None:
    if head.startswith((b"binf", b"{L\x00\x00\x00\x00\x00\x00\x00\x07learner")):
        return Look("xgboost")
    start = head.lstrip()
    if start.startswith(b"{") and re.match(rb'\{\s*"(learner|version)"\s*:', start) and b"learner" in head:
        return Look("xgboost")
    return None


def _lightgbm(head: bytes) -> Look | None:
    return Look("lightgbm") if re.match(rb"tree\r?\nversion=v\d", head) else None


def _onnx(head: bytes, suffix: str) -> Look | None:
    """A ModelProto begins with its ir_version, a small number; other valid fields follow."""
    likely = len(head) > 3 and head[0] == 0x08 and head[1] < 0x20 and head[2] in _FIELDS
    return Look("onnx") if likely or (suffix == ".onnx" and head[0] == 0x08) else None


def _pickle(file: Path, head: bytes, suffix: str) -> Look | None:
    opened = _open_pickle(file, head)
    if opened is None:
        return None
    modules = []
    try:
        with opened as stream:
            start = stream.read(_MOST_BYTES)
        if start[:1] != b"\x80" and suffix not in frameworks.PICKLES:
            return None
        for module in _modules(start):
            if module not in modules:
                modules.append(module)
    except (OSError, EOFError, ValueError, Warning, zlib.error, lzma.LZMAError):
        pass  # damaged, or truncated where we stopped reading: earlier results count. Warning: an invalid escape in
        # data that is not text, where warnings are errors
    return _of_modules(modules) if modules else None


def _open_pickle(file: Path, head: bytes) -> IO[bytes] | None:
    """Opens the pickle itself: joblib may compress it in several formats."""
    openers: tuple[tuple[bytes, Callable[[Path], Any]], ...] = (
        (_GZIP, gzip.open), (_BZ2, bz2.open), (_XZ, lzma.open),
    )  # fmt: skip
    for magic, opener in openers:
        if head.startswith(magic):
            return opener(file)  # type: ignore[no-any-return]
    if head.startswith(_ZLIB) and len(head) > 1 and (head[0] * 256 + head[1]) % 31 == 0:
        with file.open("rb") as stream:
            return io.BytesIO(zlib.decompressobj().decompress(stream.read(_MOST_BYTES), _MOST_BYTES))
    return file.open("rb")


def _modules(data: bytes) -> Iterator[str]:
    """Yields the modules that a pickle would import, in order."""
    pushed: deque[Any] = deque((None, None), maxlen=2)
    memo: dict[Any, Any] = {}
    for count, (opcode, argument, _) in enumerate(pickletools.genops(io.BytesIO(data))):
        name = opcode.name
        if count > _MOST_OPCODES:
            return
        if name == "MEMOIZE" or name.endswith("PUT"):
            memo[len(memo) if name == "MEMOIZE" else argument] = pushed[-1]
            continue
        if name == "GLOBAL":
            yield str(argument).split(" ", maxsplit=1)[0]
        elif name == "STACK_GLOBAL" and isinstance(pushed[0], str):
            yield pushed[0]
        # Only strings matter: module and name are the last two before a STACK_GLOBAL.
        pushed.append(memo.get(argument) if name.endswith("GET") else argument if "UNICODE" in name else None)


def _of_modules(modules: list[str]) -> Look:
    tops = [module.partition(".")[0] for module in modules]
    first = next((top for top in tops if top not in _PLUMBING), "")
    if "__main__" in tops:
        return Look(
            None,
            "a pickle that needs definitions from the script that wrote it (__main__): move them to a module, import "
            "it in the script, save the model again, and deploy a folder with the new file and the module",
        )
    if first == "cloudpickle":
        return Look("python")
    # A pipeline may contain a model of another library: the outer object, which comes first, is called.
    return Look(first if first in ("xgboost", "lightgbm") else "sklearn")
