"""docs/reference/conditions.md, from the tables in kinds/schema/conditions.py."""

from __future__ import annotations

from mizzen.kinds.schema.conditions import EVENT_REASONS, REASONS, TYPES
from tools.reference import markdown

INTRO = """\
A condition is one statement about an object: its type, `True`, `False` or `Unknown`, a reason in one word for programs,
and a message for people. `lastTransitionTime` changes only when the status does; `observedGeneration` says which
generation of the spec the condition describes."""

EVENTS = """\
When a condition's status or reason changes, Mizzen records an Event and keeps it for an hour, unless `Accepted` became
`True`. `kubectl events` and `kubectl describe` show Events. Other Events are:"""


def page() -> str:
    types = markdown.table(("Type", "Meaning"), [(markdown.code(name), text) for name, text in TYPES.items()])
    reasons = markdown.table(("Reason", "Meaning"), [(markdown.code(name), text) for name, text in REASONS.items()])
    events = markdown.table(
        ("Reason", "Meaning"), [(markdown.code(name), text) for name, text in EVENT_REASONS.items()]
    )
    return markdown.page("Conditions", INTRO, "## Types", types, "## Reasons", reasons, "## Events", EVENTS, events)
