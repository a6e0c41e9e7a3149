"""All faults and warnings of documents that can be found without a plane. Pure.

A plane finds the same and, since it knows other objects, perhaps more.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mizzen.errors import Fault
from mizzen.kinds.schema import metadata
from mizzen.kinds.schema.findings import Context, Finding, Findings, Warn, unknown
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE
from mizzen.manifests.reader import Document

TOP: Final = ("apiVersion", "kind", "metadata", "spec", "status")

CAPABILITIES: Final[Mapping[str, frozenset[str]]] = {
    "embedded": frozenset(),
    "cluster": frozenset({"containers", "gpus"}),
}
"""What the engine of each kind of plane supports. A manifest that needs more is accepted with a warning."""


@dataclass(frozen=True, slots=True)
class Checked:
    document: Document
    faults: tuple[Fault, ...]
    warnings: tuple[Warn, ...]


def lint(
    documents: Sequence[Document], capabilities: Collection[str] = (), namespace: str = DEFAULT_NAMESPACE
) -> list[Checked]:
    """The findings of each document, in order. `namespace` applies to documents without one."""
    context = Context(capabilities=frozenset(capabilities), namespace=namespace)
    checked = []
    for document, again in zip(documents, repeat_warnings(documents, namespace), strict=True):
        found = Findings.of((*document.faults, *document.warnings, *_examine(document, context), *again))
        faults = tuple(_as_written(fault, document.unquoted) for fault in found.faults)
        checked.append(Checked(document, faults, _useful_warnings(found)))
    return checked


def repeat_warnings(documents: Sequence[Document], namespace: str = DEFAULT_NAMESPACE) -> list[tuple[Warn, ...]]:
    """For each document, a warning if an earlier one is the same object."""
    seen: dict[tuple[str, str, str], Document] = {}
    return [tuple(_again(document, namespace, seen)) for document in documents]


def _examine(document: Document, context: Context) -> Iterator[Finding]:
    kind, data = document.kind, document.data
    if data:
        yield from unknown(data, TOP)
        yield from metadata.faults(data.get("metadata"))
    if kind is None:
        if data and not document.name:
            yield _name_fault(document.metadata.get("name"))
        return
    if kind.internal:
        yield Fault("kind", f"{kind.name} is internal: only the plane writes it, users can read it")
        return
    spec = data["spec"]
    if not isinstance(spec, Mapping):
        yield Fault("spec", "must be an object")
        spec = {}
    name = document.metadata.get("name")
    annotations = document.metadata.get("annotations")
    known = replace(
        context,
        annotations=annotations if isinstance(annotations, Mapping) else {},
        name=document.name,
        namespace=str(document.metadata.get("namespace") or context.namespace),
    )
    if not document.name:
        yield _name_fault(name)
    for finding in kind.examine(document.name, spec, known):
        if document.name or finding.path != "metadata.name":
            yield finding


def _useful_warnings(found: Findings) -> tuple[Warn, ...]:
    """Warnings about a spec help to fix it, or say how it is read. They are dropped if only other parts have faults."""
    if not found.faults or any(_of_the_spec(fault) for fault in found.faults):
        return found.warnings
    return tuple(warning for warning in found.warnings if not _of_the_spec(warning))


def _of_the_spec(finding: Finding) -> bool:
    return finding.path == "spec" or finding.path.startswith("spec.")


def _name_fault(name: Any) -> Fault:
    problem = "required" if name in (None, "") else f"must be a text; quote it: '{name}'"
    return Fault("metadata.name", problem)


def _again(document: Document, namespace: str, seen: dict[tuple[str, str, str], Document]) -> Iterator[Warn]:
    if document.kind is None or not document.name:
        return
    identity = (document.kind.name, str(document.metadata.get("namespace") or namespace), document.name)
    first = seen.setdefault(identity, document)
    if first is not document:
        yield Warn("metadata.name", f"{document} is also in {first.where}; applied in this order, the last one wins")


_NO_TEXT = re.compile(r"must be a text; quote it: '(.*)'|(True|False|[-+.\d]+) is not a valid name\b.*")


def _as_written(fault: Fault, unquoted: Mapping[str, str]) -> Fault:
    """The fault with the text of the file, not with the value that YAML made of it: `yes`, not `True`."""
    written, read_as = unquoted.get(fault.path), _NO_TEXT.fullmatch(fault.message)
    if written is None or read_as is None:
        return fault
    value = read_as[1] or read_as[2]
    value = {"True": "true", "False": "false"}.get(value, value)
    otherwise = "" if value == written else f", but YAML reads {written} as {value}"
    return Fault(fault.path, f"must be a text{otherwise}; quote it: '{written}'")
