"""The policy: `allowed(actor, verb, target, bindings)` says yes or no, and why, in words a person can act on. Pure.

What nothing allows is refused. `write` includes `read`; `admin` includes all and may grant; `predict` includes nothing.
Whoever has no binding has exactly the rights of a stranger: on a plane that only this machine can reach, and unless its
settings say otherwise, to read and to predict; never what processes printed, files that were learnt, which processes
there are and who may do what, nor secrets, users and the audit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mizzen.access.safe_text import plain

Verb = Literal["read", "predict", "write", "admin"]
VERBS: tuple[Verb, ...] = ("read", "predict", "write", "admin")
INCLUDED: dict[Verb, frozenset[Verb]] = {
    "read": frozenset({"read"}),
    "predict": frozenset({"predict"}),
    "write": frozenset({"write", "read"}),
    "admin": frozenset(VERBS),
}

CLOSED_KINDS = frozenset({"User", "Secret", "AuditEntry", "RoleBinding", "Workload"})
CLOSED_SUBRESOURCES = frozenset({"logs", "monitor", "files"})
"""What strangers never see, however open the plane is: monitoring tools and what processes print say too much, and
what was learnt is not theirs to take."""

TELLING_KINDS = frozenset({"Revision", "Event"})
"""Kinds whose objects tell of objects of any kind, also of a closed one."""

LONGEST_NAME, LONGEST_NAMESPACE, LONGEST_COMMAND = 200, 100, 400
"""Characters that words about a target repeat: anybody may ask for a name of any length."""

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
    """`logs`, for what its processes wrote; `files`, for what is in its checkpoints"""
    models: frozenset[str] = frozenset()
    """The names that a binding may name to reach this: the model it belongs to, or its own."""
    alias: str = ""
    """The one alias through which it is asked for."""
    called: frozenset[str] = frozenset()
    """Names it is called by beside `models`: good for reading and predicting, not for changing what is another's."""
    tells_of: str = ""
    """For a telling kind: the kind of the object it tells of."""

    def __str__(self) -> str:
        words = (self.kind, plain(self.name, LONGEST_NAME), self.subresource)
        where = f" in namespace {plain(self.namespace, LONGEST_NAMESPACE)}" if self.namespace else ""
        return "/".join(word for word in words if word) + where


@dataclass(frozen=True, slots=True)
class Binding:
    """What a RoleBinding says: these may do that with a namespace, a model in it, or one alias of a model."""

    name: str
    namespace: str
    """That of what it is about."""
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


@dataclass(frozen=True, slots=True)
class Reach:
    """How much of all objects of a kind an actor may reach: all, those of some namespaces and models, or none."""

    everything: bool
    strangers: bool
    """All that strangers may see; there is more when it is a telling kind."""
    namespaces: frozenset[str]
    """Whole ones."""
    models: frozenset[tuple[str, str]]
    """(namespace, model); only what belongs to it."""
    verb: Verb
    reason: str

    @property
    def something(self) -> bool:
        return self.everything or self.strangers or bool(self.namespaces or self.models)

    def covers(self, target: Target) -> bool:
        """Whether this one is within. `target` is of the kind, and in the namespace, that was asked for."""
        return (
            self.everything
            or (self.strangers and _open(self.verb, target))
            or target.namespace in self.namespaces
            or any((target.namespace, name) in self.models for name in _names(self.verb, target))
        )


def allowed(
    actor: Actor,
    verb: Verb,
    target: Target,
    bindings: Iterable[Binding],
    *,
    anonymous: bool,
    named: Target | None = None,
) -> Verdict:
    """`anonymous`: strangers may read and predict here. `named`: the target as far as the caller has named it, when the
    rest was looked up: who may not even read it learns nothing else from a refusal, nor whether it is there.
    """
    if actor.admin:
        return Verdict(True, f"{actor.name} is an admin")
    if anonymous and _open(verb, target):
        return Verdict(True, f"anybody on this machine may {verb}")
    if _themselves(actor, verb, target):
        return Verdict(True, f"{actor.name} may look after their own tokens")
    own = [binding for binding in bindings if speaks_of(binding, actor)]
    for binding in own:
        if grants(binding, actor, verb, target):
            return Verdict(True, f"RoleBinding {binding.namespace}/{binding.name} lets {actor.name} {verb}")
    if verb == "read" and _around(target, own):
        return Verdict(True, f"{actor.name} has rights here")
    if named is not None and not _readable(actor, target, own, anonymous=anonymous):
        target = named
    return Verdict(False, _refusal(actor, verb, target, own))


def reach(
    actor: Actor,
    verb: Verb,
    namespace: str,
    kind: str,
    bindings: Iterable[Binding],
    *,
    anonymous: bool,
    subresource: str = "",
) -> Reach:
    """For lists and watches of a kind, in one namespace or (empty) in all: what of it `allowed` would allow."""
    target = Target(namespace, kind, "", subresource)
    whole = allowed(actor, verb, target, (), anonymous=anonymous)
    if whole.allowed and (actor.admin or kind not in TELLING_KINDS):
        return Reach(actor.admin, not actor.admin, frozenset(), frozenset(), verb, whole.reason)
    room = kind == "Namespace" and verb == "read"  # whoever has any right in it knows that it is there
    giving = [
        binding
        for binding in bindings
        if speaks_of(binding, actor)
        and namespace in ("", binding.namespace)
        # Through an alias nobody sees more than what is asked for through that alias.
        and (room or (_gives(binding, verb) and not binding.alias))
    ]
    reason = whole.reason
    if giving and not whole.allowed:
        first = giving[0]
        reason = f"RoleBinding {first.namespace}/{first.name} lets {actor.name} {verb} some of it"
    return Reach(
        False,
        whole.allowed,
        frozenset(binding.namespace for binding in giving if room or not binding.model),
        frozenset((binding.namespace, binding.model) for binding in giving if binding.model and not room),
        verb,
        reason,
    )


def grants(binding: Binding, actor: Actor, verb: Verb, target: Target) -> bool:
    return (
        speaks_of(binding, actor)
        and _gives(binding, verb)
        and target.namespace == binding.namespace
        and (not binding.model or binding.model in _names(verb, target))
        and (not binding.alias or binding.alias == target.alias)
    )


def speaks_of(binding: Binding, actor: Actor) -> bool:
    if actor == ANONYMOUS:
        return False
    return bool(binding.subjects & {actor.name, "*", *(f"group:{group}" for group in actor.groups)})


def _gives(binding: Binding, verb: Verb) -> bool:
    return any(verb in INCLUDED[given] for given in binding.verbs)


def _names(verb: Verb, target: Target) -> frozenset[str]:
    return target.models | target.called if verb in ("read", "predict") else target.models


def _open(verb: Verb, target: Target) -> bool:
    closed = {target.kind, target.tells_of} & CLOSED_KINDS or target.subresource in CLOSED_SUBRESOURCES
    return verb in ("read", "predict") and not closed


def _readable(actor: Actor, target: Target, own: Sequence[Binding], *, anonymous: bool) -> bool:
    return (anonymous and _open("read", target)) or any(grants(binding, actor, "read", target) for binding in own)


def _themselves(actor: Actor, verb: Verb, target: Target) -> bool:
    known = actor != ANONYMOUS and target.namespace == ""
    return known and target.kind == "User" and target.name == actor.name and verb in ("read", "write")


def _around(target: Target, own: Sequence[Binding]) -> bool:
    """Is it what all who have any right must know: which kinds and namespaces there are, and the version?"""
    if target.kind == "Plane":
        return bool(own)
    return target.kind == "Namespace" and any(binding.namespace == target.namespace for binding in own)


def _refusal(actor: Actor, verb: Verb, target: Target, own: list[Binding]) -> str:
    deed = _deed(verb, target)
    if actor == ANONYMOUS:
        return f"to {deed} {NEEDS_TOKEN}"
    refused = f"{actor.name} may not {deed}"
    if not target.namespace:
        return f"{refused}: that is for admins of the plane"
    return f"{refused}: {_given(target, own)}; an admin of it can allow it: {_command(actor, verb, target)}"


def _deed(verb: Verb, target: Target) -> str:
    """What they wanted to do, as people say it: only the right that it needs is always one of the verbs."""
    match target.kind:
        case "AuditEntry":
            where = f" of namespace {plain(target.namespace, LONGEST_NAMESPACE)}" if target.namespace else ""
            return f"read the audit{where}"
        case "User":
            who = f"user {plain(target.name, LONGEST_NAME)}" if target.name else "users"
            return f"{'see' if verb == 'read' else 'manage'} {who}"
    return f"{verb} {target}"


def _given(target: Target, own: list[Binding]) -> str:
    """What the actor has there already, for whoever wonders why that is not enough."""
    verbs = {verb for binding in own for verb in binding.verbs if _about(binding, target)}
    if not verbs:
        return "no RoleBinding lets them"
    return f"their RoleBindings give {' and '.join(verb for verb in VERBS if verb in verbs)} only"


def _about(binding: Binding, target: Target) -> bool:
    return (
        binding.namespace == target.namespace
        and (not binding.model or binding.model in target.models)
        and binding.alias in ("", target.alias)
    )


def _command(actor: Actor, verb: Verb, target: Target) -> str:
    model = min(target.models, default="")
    what = f"{model}@{target.alias}" if model and target.alias else model or f"namespace/{target.namespace}"
    where = "" if not model or target.namespace == "default" else f" --namespace {target.namespace}"
    return plain(f"mizzen permit {actor.name} {verb} {what}{where}", LONGEST_COMMAND)
