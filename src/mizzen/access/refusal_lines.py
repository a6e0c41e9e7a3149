"""What a gateway writes down of each request it refused, for the plane to put into the audit.

A gateway appends lines to a file of its own, `refusals/<gateway>.<when begun>.jsonl`, and holds a lock (flock) on it
for as long as it may write there; then it begins another. So the plane knows which files are finished. No name is used
twice.
"""

from __future__ import annotations

import re

import msgspec

from mizzen.access.policy import ANONYMOUS, NEEDS_TOKEN

LONGEST = 200
"""Characters of a name or path that are kept."""
LONGEST_REASON = 512
SUFFIX = ".jsonl"


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As `AuditEntry`, of which it becomes one. Nothing of what was sent is in it: no query, no header, no body."""

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
    """It was no refusal: a prediction that was chosen for the audit."""

    def like(self) -> tuple[object, ...]:
        """Equal for refusals that may be counted as one: what a flood may vary at will is left out. That is the time
        and the path, and for strangers also all that they name."""
        if self.actor == ANONYMOUS.name:
            return self.actor, self.verb, self.kind, sort_of(self.reason), self.code
        return self.actor, self.verb, self.kind, self.namespace, self.name, self.reason, self.code

    def counted(self) -> Refusal:
        """As it stands for others like it."""
        if self.actor != ANONYMOUS.name:
            return self
        return msgspec.structs.replace(self, namespace="", name="", method="", path="", reason=sort_of(self.reason))


_decode = msgspec.json.Decoder(Refusal).decode
_encode = msgspec.json.Encoder().encode


def sort_of(reason: str) -> str:
    """Why a stranger was refused, without what they named or sent: there are few of these."""
    return NEEDS_TOKEN if NEEDS_TOKEN in reason else _SPECIAL.split(reason, 1)[0]


_SPECIAL = re.compile("[';]")


def line(refusal: Refusal) -> bytes:
    return _encode(refusal) + b"\n"


def parse(line: bytes) -> Refusal:
    """ValueError."""
    return _decode(line)


def gateway_of(file: str) -> str:
    """The gateway that wrote the file of this name."""
    return file.partition(".")[0]
