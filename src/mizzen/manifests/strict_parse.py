"""Strict parsing of JSON and YAML into plain JSON data.

Rejected are repeated keys, NaN, invalid Unicode, deep nesting, and YAML that JSON cannot express.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import yaml

from mizzen.manifests import strict_yaml
from mizzen.manifests.strict_yaml import DEPTH, LoadedDocument

T = TypeVar("T")


class Unreadable(ValueError):
    """The message completes `this text is …`: the fault and its position."""


def read_json(data: bytes) -> Any:
    return _readable("JSON", lambda: _check_plain(json.loads(data.decode(), object_pairs_hook=_unique)))


def read_yaml(data: bytes) -> Any:
    """The one document in `data`."""
    return _readable("YAML", lambda: _check_plain(strict_yaml.load(data.decode())), data)


def read_documents(data: bytes) -> list[LoadedDocument]:
    """Every document of YAML, or the single one of JSON."""
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return [LoadedDocument(read_json(data), 1 + data[: len(data) - len(data.lstrip())].count(b"\n"))]
        except Unreadable as error:
            # YAML may begin with a brace, too, but its author most likely meant JSON: report the JSON fault.
            try:
                return _yaml_documents(data)
            except Unreadable:
                raise error from None
    return _yaml_documents(data)


def type_name(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")


def _yaml_documents(data: bytes) -> list[LoadedDocument]:
    documents = _readable("YAML", lambda: list(strict_yaml.load_all(data.decode())), data)
    for document in documents:
        _readable("YAML", lambda value=document.value: _check_plain(value))  # type: ignore[misc]
    return documents


def _readable(language: str, read: Callable[[], T], text: bytes = b"") -> T:
    try:
        return read()
    except UnicodeDecodeError as error:
        raise Unreadable(f"not text: byte {error.start + 1} is not UTF-8") from error
    except yaml.reader.ReaderError as error:
        raise Unreadable(f"not text: character {error.position + 1} is a control character") from error
    except RecursionError as error:
        raise Unreadable(f"not readable {language}: it is nested too deeply") from error
    except (ValueError, KeyError, yaml.YAMLError) as error:  # KeyError: PyYAML, for !!bool maybe
        raise Unreadable(f"not readable {language}: {_explain(error, text)}") from error


def _check_plain(value: T) -> T:
    _demand_plain(value, "", DEPTH)
    return value


def _demand_plain(value: Any, path: str, depth: int) -> None:
    if depth < 0:
        raise ValueError(f"more than {DEPTH} levels")
    match value:
        case dict():
            for key, item in value.items():
                _demand_plain(key, path, depth)
                _demand_plain(item, f"{path}.{key}" if path else key, depth - 1)
        case list():
            for index, item in enumerate(value):
                _demand_plain(item, f"{path}[{index}]", depth - 1)
        case str():
            value.encode()  # a lone surrogate cannot be stored: UnicodeEncodeError is a ValueError
        case float() if not math.isfinite(value):
            raise ValueError(f"{value} at '{path}' is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError(f"the key '{_first_repeated(key for key, _ in pairs)}' is repeated")
    return result


def _first_repeated(keys: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _explain(error: Exception, text: bytes) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem and error.problem_mark:
        mark = error.problem_mark
        within = f" {error.context}" if error.context else ""
        what = "a tab; indent with spaces" if _at(text, mark) == "\t" else f"{error.problem}{within}"
        return f"{what}, line {mark.line + 1}, column {mark.column + 1}"
    return " ".join(str(error).split())


def _at(text: bytes, mark: yaml.Mark) -> str:
    """The character at a mark; empty at the end."""
    lines = text.decode().split("\n")
    return lines[mark.line][mark.column : mark.column + 1] if mark.line < len(lines) else ""
