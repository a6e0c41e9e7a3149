"""The lines in which gateways record refused requests, for the plane to copy into the audit.

A gateway appends lines to its own file, `refusals/<gateway>.<start time>.jsonl`, and locks it (flock) while it may
still write there; then it starts another file. So the plane knows which files are finished. File names are never
reused.
"""

from __future__ import annotations

import re

import msgspec

from mizzen.access.policy import ANONYMOUS, NEEDS_TOKEN

LONGEST = 200
"""The most characters of a name or path that are recorded."""
LONGEST_REASON = 512
SUFFIX = ".jsonl"


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Becomes one `AuditEntry`. It holds no content of the request: no query, no header, no body."""

    time: float
    """Seconds since 1970."""
    actor: str
    verb: str
    kind: str
    namespace: str = ""
    name: str = ""
    reason: str
    method: str = ""
    path: str = ""
    code: int
    count: int = 1
    allowed: bool = False
    """True for a prediction that was sampled for the audit, which is not a refusal."""

    def merge_key(self) -> tuple[object, ...]:
        """Equal for refusals that may be merged into one count. It omits values that a flood of requests may vary: the
        time, the path, and for anonymous callers all names."""
        if self.actor == ANONYMOUS.name:
            return self.actor, self.verb, self.kind, category_of(self.reason), self.code
        return self.actor, self.verb, self.kind, self.namespace, self.name, self.reason, self.code

    def without_details(self) -> Refusal:
        """Returns the entry that can stand for all with the same `merge_key`."""
        if self.actor != ANONYMOUS.name:
            return self
        return msgspec.structs.replace(self, namespace="", name="", method="", path="", reason=category_of(self.reason))


parse_line = msgspec.json.Decoder(Refusal).decode
"""Raises ValueError."""
_encode = msgspec.json.Encoder().encode


def category_of(reason: str) -> str:
    """Returns the reason without names or values from the request: there are few such categories."""
    return NEEDS_TOKEN if NEEDS_TOKEN in reason else _SPECIAL.split(reason, 1)[0]


_SPECIAL = re.compile("[';]")


def encode_line(refusal: Refusal) -> bytes:
    return _encode(refusal) + b"\n"


def gateway_of(file: str) -> str:
    """Returns the gateway that wrote the file of this name."""
    return file.partition(".")[0]
