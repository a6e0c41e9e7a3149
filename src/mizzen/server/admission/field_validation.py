"""`fieldValidation`: how to treat unknown fields. Strict, the default, refuses them.

Warn drops them with a warning, Ignore drops them silently; they are never stored. All other faults are refused in any
case.
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
"""Dropping a field may reveal another unknown field that was not checked before."""


def strictness_of(query: Query) -> Strictness:
    word = query.text("fieldValidation") or "Strict"
    found: Strictness | None = next((one for one in get_args(Strictness) if one == word), None)
    if found is None:
        raise BadRequest(f"fieldValidation={word!r}: must be one of {', '.join(get_args(Strictness))}")
    return found


def decode(
    strictness: Strictness, kind: Kind, body: Mapping[str, Any], *, namespace: str, name: str | None, known: Context
) -> Draft:
    """As `decode.decode`. Raises Invalid."""
    if strictness == "Strict":
        return admission_decode.decode(kind, body, namespace=namespace, name=name, known=known)
    left: Any = copy.deepcopy(dict(body))
    warnings: list[Warn] = []
    for _ in range(_ROUNDS):
        try:
            draft = admission_decode.decode(kind, left, namespace=namespace, name=name, known=known)
        except Invalid as error:
            strange = [fault for fault in error.faults if _drop_unknown(left, fault)]
            if not strange:
                raise
            warnings += [Warn(fault.path, fault.message) for fault in strange]
            continue
        return replace(draft, warnings=(*draft.warnings, *warnings)) if strictness == "Warn" else draft
    raise Invalid.of(f"the {kind.name}", tuple(Fault(warn.path, warn.message) for warn in warnings))


def _drop_unknown(body: Any, fault: Fault) -> bool:
    """Drops the field that the fault reports as unknown. False if the fault is another one."""
    unknown = _UNKNOWN.match(fault.message)
    if unknown is None:
        return False
    here = body
    for index, step in _STEP.findall(fault.path):
        try:
            here = here[int(index)] if index else here[step]
        except (KeyError, IndexError, TypeError):
            return False
    return isinstance(here, dict) and here.pop(unknown[1], _drop_unknown) is not _drop_unknown
