"""Strict parsing of query strings: ignoring a parameter such as `dryRun` would change what the request does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from starlette.requests import Request

from mizzen.errors import BadRequest, Fault, Invalid
from mizzen.kinds.schema.findings import suggestion
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, name_fault
from mizzen.kinds.text import selectors
from mizzen.kinds.text.selectors import Selector

MOST_ON_A_PAGE = 5000
LARGEST = 2**63 - 1
"""The bound of numbers that have no other: clients store them in 64 bits."""

# Possessive (`*+`): a mismatch fails at once, without backtracking.
_TERM = re.compile(r"\s*+([^\s=!,()]++)\s*+(==?|!=)\s*+([^\s=!,()]*+)\s*+")


class Query:
    def __init__(self, request: Request, *known: str) -> None:
        """Raises BadRequest if a parameter is not in `known`, or is given twice."""
        pairs = request.query_params.multi_items()
        for name, _ in pairs:
            if name not in known:
                raise BadRequest(f"unknown query parameter '{name}'; {suggestion(name, known)}")
        self._values = dict(pairs)
        if len(self._values) < len(pairs):
            raise BadRequest("a query parameter is given more than once")

    def text(self, name: str) -> str:
        return self._values.get(name, "")

    def flag(self, name: str) -> bool:
        value = self.text(name).lower()
        if value not in ("", "true", "false", "1", "0"):
            raise BadRequest(f"{name}={value!r}: must be true or false")
        return value in ("true", "1")

    def number(self, name: str, *, low: int = 0, high: int = 1_000_000) -> int | None:
        value = self.text(name)
        if not value:
            return None
        # `int` raises for very long numbers, and no valid one is longer than the largest allowed.
        readable = value.isascii() and value.isdecimal() and len(value) <= len(str(high))
        if not (readable and low <= int(value) <= high):
            raise BadRequest(f"{name}={value[:40]!r}: must be a number, {low} to {high}")
        return int(value)

    def limit(self, default: int, most: int = MOST_ON_A_PAGE) -> int:
        """`limit`: the most items of one response. A caller that asks for more than `most` gets a page of `most`."""
        return min(self.number("limit", low=1, high=LARGEST) or default, most)

    def time(self, name: str) -> datetime | None:
        """A time in ISO 8601; without a zone, UTC. A space counts as `+`, which URL decoding turns into a space."""
        text = self.text(name)
        if not text:
            return None
        try:
            time = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
            return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
        except (ValueError, OverflowError) as error:  # only its UTC value may be out of range
            raise BadRequest(
                f"{name}={text[:40]!r} is not a time", hint="write it like 2026-01-31T12:00:00Z"
            ) from error

    def selector(self) -> Selector:
        """`labelSelector`, in all the forms of Kubernetes."""
        return selectors.parse(self.text("labelSelector"))

    def fields(self) -> Mapping[str, str]:
        """The fields that `fieldSelector` requires to be equal: terms are separated by commas, and all must hold."""
        wanted: dict[str, str] = {}
        for path, sign, value in self._field_terms():
            if sign != "!=" and wanted.setdefault(path, value) != value:
                raise BadRequest(f"fieldSelector: '{path}' cannot be '{wanted[path]}' and '{value}'")
        return wanted

    def excluded_fields(self) -> frozenset[tuple[str, str]]:
        """The fields that `fieldSelector` requires to differ."""
        return frozenset((path, value) for path, sign, value in self._field_terms() if sign == "!=")

    def _field_terms(self) -> Iterator[tuple[str, str, str]]:
        text = self.text("fieldSelector")
        if len(text) > selectors.LONGEST:
            raise BadRequest(f"fieldSelector: at most {selectors.LONGEST:,} characters, not {len(text):,}")
        for term in filter(str.strip, text.split(",")):
            match = _TERM.fullmatch(term)
            if match is None:
                hint = "write field=value or field!=value, separated by commas"
                raise BadRequest(f"fieldSelector: cannot read '{term}'", hint=hint)
            yield match[1], match[2], match[3]

    def dry_run(self) -> bool:
        """`dryRun=All`: do everything except the write."""
        value = self.text("dryRun")
        if value not in ("", "All"):
            raise BadRequest(f"dryRun={value!r}: must be All")
        return value == "All"

    def list_assumed(self) -> frozenset[tuple[str, str]]:
        """`assume=Kind/name,…`: objects that a dry run of several objects would have created before this one."""
        text = self.text("assume")
        if text and not self.dry_run():
            raise BadRequest("assume is only for dryRun=All")
        pairs = [part.partition("/") for part in text.split(",") if part]
        if any(not kind or not name for kind, _, name in pairs):
            raise BadRequest("assume: expected Kind/name, separated by commas")
        return frozenset((kind, name) for kind, _, name in pairs)

    def namespace(self, default: str = DEFAULT_NAMESPACE) -> str:
        namespace = self.text("namespace") or default
        fault = name_fault(namespace, "namespace") if namespace else None
        if fault:
            raise Invalid.of("the query", (Fault(fault.path, fault.message),))
        return namespace
