"""The policy: `allowed(actor, verb, target, bindings)` says yes or no, and why, in words a person can act on. Pure.

What nothing allows is refused. `write` includes `read`; `admin` includes all and may grant; `predict` includes nothing.
Whoever has no binding has exactly the rights of a stranger: on a plane that only this machine can reach, and unless its
settings say otherwise, to read and to predict; never what processes printed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verb = Literal["read", "predict", "write", "admin"]
VERBS: tuple[Verb, ...] = ("read", "predict", "write", "admin")
INCLUDED: dict[Verb, frozenset[Verb]] = {
    "read": frozenset({"read"}),
    "predict": frozenset({"predict"}),
    "write": frozenset({"write", "read"}),
    "admin": frozenset(VERBS),
}

NEEDS_TOKEN = "needs a token: set MIZZEN_TOKEN or use the data dir's admin-token"  # noqa: S105 - no secret, a sentence


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks. The name is what history records."""

    name: str
    groups: frozenset[str] = frozenset()
    admin: bool = False
    """Of the whole plane."""


ANONYMOUS = Actor("anonymous")


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked for. An empty name stands for all of a kind, an empty namespace for the plane itself or for all."""

    namespace: str
    kind: str
    name: str = ""
    subresource: str = ""
    """`logs`, for what its processes wrote"""
    models: frozenset[str] = frozenset()
    """The callable names that a binding may name to reach this: the model it belongs to, and its own."""
    alias: str = ""
    """The one alias through which it is asked for."""

    def __str__(self) -> str:
        words = (self.kind, self.name, self.subresource)
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return "/".join(word for word in words if word) + where


@dataclass(frozen=True, slots=True)
class Binding:
    """What a RoleBinding says: these may do that with a namespace, a model in it, or one alias of a model."""

    name: str
    namespace: str
    subjects: frozenset[str]
    """Names of principals, `group:<name>`, or `*` for everybody who has a valid token."""
    verbs: frozenset[Verb]
    model: str = ""
    """Empty: the whole namespace."""
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    reason: str


def allowed(actor: Actor, verb: Verb, target: Target, bindings: Iterable[Binding], *, anonymous: bool) -> Verdict:
    """`anonymous`: strangers may read and predict here."""
    if actor.admin:
        return Verdict(True, f"{actor.name} is an admin")
    if anonymous and verb in ("read", "predict") and target.subresource != "logs":
        return Verdict(True, f"anybody on this machine may {verb}")
    for binding in bindings:
        if grants(binding, actor, verb, target):
            return Verdict(True, f"RoleBinding {binding.namespace}/{binding.name} lets {actor.name} {verb}")
    return Verdict(False, _refusal(actor, verb, target))


def grants(binding: Binding, actor: Actor, verb: Verb, target: Target) -> bool:
    return (
        speaks_of(binding, actor)
        and any(verb in INCLUDED[given] for given in binding.verbs)
        and target.namespace == binding.namespace
        and (not binding.model or binding.model in target.models)
        and (not binding.alias or binding.alias == target.alias)
    )


def speaks_of(binding: Binding, actor: Actor) -> bool:
    if actor == ANONYMOUS:
        return False
    return bool(binding.subjects & {actor.name, "*", *(f"group:{group}" for group in actor.groups)})


def _refusal(actor: Actor, verb: Verb, target: Target) -> str:
    if actor == ANONYMOUS:
        return f"to {verb} {target} {NEEDS_TOKEN}"
    return f"{actor.name} may not {verb} {target}: no RoleBinding lets them; an admin can: mizzen permit"
