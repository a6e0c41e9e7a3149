"""What was probably meant by a name that is not there: looked for when a request has failed for it.

Nobody is told of what they may not read.
"""

from __future__ import annotations

from starlette.requests import Request

from mizzen.errors import MizzenError, NotFound
from mizzen.kinds.schema.findings import close_to
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.server.admission import model_family
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import plane_of
from mizzen.stores.name_errors import Missing
from mizzen.stores.store import Present, Reads, Where

MOST_NAMES = 200
"""Where there are more of a kind, looking through them is not worth its price: many ask for what may not be there."""
MOST_VERSIONS = 20


async def explained(request: Request, error: MizzenError) -> MizzenError:
    """The same, with a hint at what there is, where that can be known."""
    if not isinstance(error, Missing):
        return error
    try:
        async with plane_of(request).store.snapshot() as moment:
            if error.ref.kind == "ModelVersion":
                return await _version(request, moment, error)
            close = await _close(request, moment, error.ref)
    except MizzenError:  # the first failure is the news; this one would hide it
        return error
    error.hint = f"did you mean '{close}'?" if close else error.hint
    return error


async def versions(request: Request, moment: Reads, model: Ref) -> str:
    """A hint: the newest versions that a model has, or how to give it one; empty for who may not know."""
    if not authorization.may(request, "read", targets.model(model)):
        return ""
    found: list[tuple[tuple[Resource, ...], int]] = []

    def look(now: Present) -> None:
        found.append((now.newest("ModelVersion", model, MOST_VERSIONS), now.count("ModelVersion", model)))

    await moment.check(look)
    newest, count = found[0]
    if not newest:
        return f"it has none yet: 'mizzen version add {model.name} PATH' registers one"
    more = f"… {count} in all: " if count > len(newest) else ""
    return f"its versions are {more}{', '.join(map(model_family.version_of, sorted(newest, key=model_family.order)))}"


async def _version(request: Request, moment: Reads, error: Missing) -> NotFound:
    name, _, version = error.ref.name.partition(".")
    model = Ref("Model", name, error.ref.namespace)
    try:
        await moment.get(model)
    except NotFound:
        close = await _close(request, moment, model)
        meant = f"did you mean '{close}'?" if close else "'mizzen get models' lists those there are"
        hint = f"there is no model '{name}'; {meant}"
    else:
        hint = await versions(request, moment, model)
    return NotFound(f"model '{name}' has no version {version}", hint=hint or error.hint)


async def _close(request: Request, moment: Reads, ref: Ref) -> str | None:
    there = await moment.list(ref.kind, Where(namespace=ref.namespace), limit=MOST_NAMES)
    if there.next is not None:
        return None
    return close_to(
        ref.name, [item.meta.name for item in there.items if authorization.may(request, "read", targets.of(item))]
    )
