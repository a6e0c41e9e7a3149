"""`fieldValidation`: what happens to fields that nobody knows. They are refused, unless somebody asks otherwise.

With Warn they are left out and told, with Ignore left out; they are never kept. Everything else that is wrong is
refused in any case.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from mizzen.errors import BadRequest, Fault, Invalid
from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema.findings import Context, Warn
from mizzen.server.admission import decode as admission_decode
from mizzen.server.admission.decode import Draft
from mizzen.server.http.query import Query

Strictness = Literal["Strict", "Warn", "Ignore"]

_UNKNOWN = re.compile(r"unknown field '(.*?)'; ", re.DOTALL)
_STEP = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")
_ROUNDS = 20
"""A field that is left out may have hidden another one from being looked at."""


def of(query: Query) -> Strictness:
    said = query.text("fieldValidation") or "Strict"
    found: Strictness | None = next((one for one in get_args(Strictness) if one == said), None)
    if found is None:
        raise BadRequest(f"fieldValidation={said!r}: must be one of {', '.join(get_args(Strictness))}")
    return found


def decode(
    strictness: Strictness, kind: Kind, body: Mapping[str, Any], *, namespace: str, name: str | None, known: Context
) -> Draft:
    """As `admission.decode`. Invalid."""
    if strictness == "Strict":
        return admission_decode.decode(kind, body, namespace=namespace, name=name, known=known)
    left: Any = copy.deepcopy(dict(body))
    told: list[Warn] = []
    for _ in range(_ROUNDS):
        try:
            draft = admission_decode.decode(kind, left, namespace=namespace, name=name, known=known)
        except Invalid as error:
            strange = [fault for fault in error.faults if _left_out(left, fault)]
            if not strange:
                raise
            told += [Warn(fault.path, fault.message) for fault in strange]
            continue
        return replace(draft, warnings=(*draft.warnings, *told)) if strictness == "Warn" else draft
    raise Invalid.of(f"the {kind.name}", tuple(Fault(warn.path, warn.message) for warn in told))


def _left_out(body: Any, fault: Fault) -> bool:
    """Takes the field away that the fault says is unknown. False: it says something else."""
    unknown = _UNKNOWN.match(fault.message)
    if unknown is None:
        return False
    here = body
    for index, step in _STEP.findall(fault.path):
        try:
            here = here[int(index)] if index else here[step]
        except (KeyError, IndexError, TypeError):
            return False
    return isinstance(here, dict) and here.pop(unknown[1], _left_out) is not _left_out
