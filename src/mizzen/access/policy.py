"""The policy: `allowed(actor, verb, target)` says yes or no, and why, in words a person can act on.

What is not allowed here is refused. So far there is one kind of token, the admin's, and whoever comes without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verb = Literal["read", "predict", "write", "admin"]
"""`write` changes resources; `admin` is for the plane itself: stopping it, settings, users."""

NEEDS_TOKEN = "needs a token: set MIZZEN_TOKEN or use the data dir's admin-token"  # noqa: S105 - no secret, a sentence


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks. The name is what history records."""

    name: str
    admin: bool = False


ANONYMOUS = Actor("anonymous")


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked for. An empty name stands for all of a kind, an empty namespace for none or all of them."""

    namespace: str
    kind: str
    name: str = ""
    subresource: str = ""
    """`logs`, for what its processes wrote"""

    def __str__(self) -> str:
        words = (self.kind, self.name, self.subresource)
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return "/".join(word for word in words if word) + where


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    reason: str


def allowed(actor: Actor, verb: Verb, target: Target, *, loopback: bool) -> Verdict:
    """`loopback`: the plane listens on loopback only, so whoever asks has an account on this machine."""
    if actor.admin:
        return Verdict(True, f"{actor.name} is an admin")
    if verb not in ("read", "predict") or target.subresource == "logs":
        return _refused(actor, verb, target, "")
    if not loopback:
        return _refused(actor, verb, target, " on a plane that others can reach")
    return Verdict(True, f"anybody on this machine may {verb}")


def _refused(actor: Actor, verb: Verb, target: Target, where: str) -> Verdict:
    if actor == ANONYMOUS:
        return Verdict(False, f"to {verb} {target}{where} {NEEDS_TOKEN}")
    return Verdict(False, f"{actor.name} may not {verb} {target}{where}: only admins may")
