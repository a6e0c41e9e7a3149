"""Suggestions for a name that does not exist, looked up after a request failed.

They never mention objects that the caller may not read.
"""

from __future__ import annotations

from starlette.requests import Request

from mizzen.errors import MizzenError, NotFound
from mizzen.kinds.schema.findings import close_to
from mizzen.kinds.schema.resource import Ref
from mizzen.server.admission import model_family
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import context_of
from mizzen.stores.name_errors import Missing
from mizzen.stores.store import Reads, Where

MOST_NAMES = 200
"""With more objects of a kind than this, a suggestion costs too much: many requests name absent objects on purpose."""
MOST_VERSIONS = 20


async def add_suggestion(request: Request, error: MizzenError) -> MizzenError:
    """The same error, with a hint at existing names if there is one."""
    if not isinstance(error, Missing):
        return error
    try:
        async with context_of(request).store.snapshot() as moment:
            if error.ref.kind == "ModelVersion":
                return await _explain_version(request, moment, error)
            close = await _closest_name(request, moment, error.ref)
    except MizzenError:  # the first failure is what matters; this one would hide it
        return error
    error.hint = f"did you mean '{close}'?" if close else error.hint
    return error


async def versions_hint(request: Request, moment: Reads, model: Ref) -> str:
    """A hint: the model's newest versions, or how to add one; empty if the caller may not read the model."""
    if not authorization.is_allowed(request, "read", targets.model(model)):
        return ""
    newest, count = await model_family.read_at_once(
        moment,
        lambda now: (now.newest("ModelVersion", model, MOST_VERSIONS), now.count("ModelVersion", model)),
    )
    if not newest:
        return f"it has no versions yet: 'mizzen version add {model.name} PATH' registers one"
    more = f"… {count} in total: " if count > len(newest) else ""
    names = map(model_family.version_of, sorted(newest, key=model_family.sort_key))
    return f"its versions are {more}{', '.join(names)}"


async def _explain_version(request: Request, moment: Reads, error: Missing) -> NotFound:
    name, _, version = error.ref.name.partition(".")
    model = Ref("Model", name, error.ref.namespace)
    try:
        await moment.get(model)
    except NotFound:
        close = await _closest_name(request, moment, model)
        advice = f"did you mean '{close}'?" if close else "'mizzen get models' lists the models"
        hint = f"there is no model '{name}'; {advice}"
    else:
        hint = await versions_hint(request, moment, model)
    return NotFound(f"model '{name}' has no version {version}", hint=hint or error.hint)


async def _closest_name(request: Request, moment: Reads, ref: Ref) -> str | None:
    there = await moment.list(ref.kind, Where(namespace=ref.namespace), limit=MOST_NAMES)
    if there.next is not None:
        return None
    visible = (item for item in there.items if authorization.is_allowed(request, "read", targets.of(item)))
    return close_to(ref.name, [item.meta.name for item in visible])
