"""docs/reference/conditions.md, from the tables in kinds/schema/conditions.py."""

from __future__ import annotations

from mizzen.kinds.schema.conditions import HAPPENINGS, REASONS, TYPES
from tools.reference import markdown

INTRO = """\
A condition is one statement about an object: its type, `True`, `False` or `Unknown`, a reason in one word for programs,
and a message for people. `lastTransitionTime` moves only when the status does; `observedGeneration` says which
generation of the spec it speaks of."""

EVENTS = """\
When a condition gets another status or reason, an Event tells so for an hour: `kubectl events`, `kubectl describe`.
Only `Accepted` turning `True` is nothing to tell. Events also tell of this:"""


def page() -> str:
    types = markdown.table(("Type", "Meaning"), [(markdown.code(name), text) for name, text in TYPES.items()])
    reasons = markdown.table(("Reason", "Meaning"), [(markdown.code(name), text) for name, text in REASONS.items()])
    events = markdown.table(("Reason", "Meaning"), [(markdown.code(name), text) for name, text in HAPPENINGS.items()])
    return markdown.page("Conditions", INTRO, "## Types", types, "## Reasons", reasons, "## Events", EVENTS, events)
