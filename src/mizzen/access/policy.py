"""The policy: `authorize(actor, verb, target, bindings)` says yes or no, with a reason that helps the caller. Pure.

Everything that no rule allows is refused. `write` includes `read`; `admin` includes all verbs and may grant; `predict`
includes no other verb. A user without a RoleBinding has exactly the rights of an anonymous caller. On a plane that
only this machine can reach, unless its settings say otherwise, that is to read and to predict. Anonymous callers never
read logs, checkpoint files, workloads, RoleBindings, secrets, users and the audit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mizzen.access.safe_text import sanitize

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
"""Anonymous callers never see these, even on an open plane: logs and monitoring tools reveal too much, and trained
files are not theirs to take."""

REPORTING_KINDS = frozenset({"Revision", "Event"})
"""Kinds whose objects report about objects of any kind, also of a closed one."""

LONGEST_NAME, LONGEST_NAMESPACE, LONGEST_COMMAND = 200, 100, 400
"""The most characters of a name that messages repeat: callers may send names of any length."""

NEEDS_TOKEN = "needs a token: set MIZZEN_TOKEN or use the data dir's admin-token"  # noqa: S105 - no secret, a sentence


@dataclass(frozen=True, slots=True)
class Actor:
    """An authenticated caller. History records the name."""

    name: str
    groups: frozenset[str] = frozenset()
    admin: bool = False
    """Whether the caller is an admin of the whole plane."""


ANONYMOUS = Actor("anonymous")


@dataclass(frozen=True, slots=True)
class Target:
    """The object of a request. An empty name means all objects of a kind; an empty namespace, the plane itself or all
    namespaces."""

    namespace: str
    kind: str
    name: str = ""
    subresource: str = ""
    """`logs`: the output of its processes; `files`: the content of its checkpoints."""
    models: frozenset[str] = frozenset()
    """The names by which a binding covers this object: the model it belongs to, or its own name."""
    alias: str = ""
    """The alias that the request names, if any."""
    extra_names: frozenset[str] = frozenset()
    """Further names that it answers to. A binding to one of them grants reading and predicting, but not changes."""
    involved_kind: str = ""
    """For a reporting kind: the kind of the object that it reports about."""

    def __str__(self) -> str:
        words = (self.kind, sanitize(self.name, LONGEST_NAME), self.subresource)
        where = f" in namespace {sanitize(self.namespace, LONGEST_NAMESPACE)}" if self.namespace else ""
        return "/".join(word for word in words if word) + where


@dataclass(frozen=True, slots=True)
class Binding:
    """The rights of a RoleBinding: verbs on a namespace, on a model in it, or on one alias of a model."""

    name: str
    namespace: str
    subjects: frozenset[str]
    """Names of principals, `group:<name>`, or `*` for all callers with a valid token."""
    verbs: frozenset[Verb]
    model: str = ""
    """Empty: the whole namespace."""
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class AccessScope:
    """The objects of a kind that an actor may access: all, those of some namespaces and models, or none."""

    everything: bool
    public: bool
    """Includes everything that anonymous callers may see."""
    namespaces: frozenset[str]
    """Includes all objects of these namespaces."""
    models: frozenset[tuple[str, str]]
    """(namespace, model); includes only what belongs to the model."""
    verb: Verb
    reason: str

    @property
    def has_any(self) -> bool:
        return self.everything or self.public or bool(self.namespaces or self.models)

    def covers(self, target: Target) -> bool:
        """Whether the scope includes the target, which must be of the kind, and in the namespace, of the request."""
        return (
            self.everything
            or (self.public and _is_public(self.verb, target))
            or target.namespace in self.namespaces
            or any((target.namespace, name) in self.models for name in _names_for(self.verb, target))
        )


def authorize(
    actor: Actor,
    verb: Verb,
    target: Target,
    bindings: Iterable[Binding],
    *,
    anonymous: bool,
    named: Target | None = None,
) -> Verdict:
    """`anonymous`: callers without a token may read and predict here. `named`: the target as the caller named it, if
    the rest was looked up. A refusal tells callers that may not read the object nothing else, nor whether it exists.
    """
    if actor.admin:
        return Verdict(True, f"{actor.name} is an admin")
    if anonymous and _is_public(verb, target):
        return Verdict(True, f"anyone on this machine may {verb}")
    if _is_own_account(actor, verb, target):
        return Verdict(True, f"{actor.name} may manage their own tokens")
    own = [binding for binding in bindings if names_actor(binding, actor)]
    for binding in own:
        if grants(binding, actor, verb, target):
            return Verdict(True, f"RoleBinding {binding.namespace}/{binding.name} lets {actor.name} {verb}")
    if verb == "read" and _is_visible_to_members(target, own):
        return Verdict(True, f"{actor.name} has rights here")
    if named is not None and not _can_read(actor, target, own, anonymous=anonymous):
        target = named
    return Verdict(False, _refusal_text(actor, verb, target, own))


def resolve_scope(
    actor: Actor,
    verb: Verb,
    namespace: str,
    kind: str,
    bindings: Iterable[Binding],
    *,
    anonymous: bool,
    subresource: str = "",
) -> AccessScope:
    """For lists and watches of a kind, in one namespace or (empty) in all: the objects that `authorize` would allow."""
    target = Target(namespace, kind, "", subresource)
    whole = authorize(actor, verb, target, (), anonymous=anonymous)
    if whole.allowed and (actor.admin or kind not in REPORTING_KINDS):
        return AccessScope(actor.admin, not actor.admin, frozenset(), frozenset(), verb, whole.reason)
    room = kind == "Namespace" and verb == "read"  # any right in a namespace includes seeing that it exists
    giving = [
        binding
        for binding in bindings
        if names_actor(binding, actor)
        and namespace in ("", binding.namespace)
        # A binding to an alias grants only requests through that alias.
        and (room or (_includes_verb(binding, verb) and not binding.alias))
    ]
    reason = whole.reason
    if giving and not whole.allowed:
        first = giving[0]
        reason = f"RoleBinding {first.namespace}/{first.name} lets {actor.name} {verb} some of it"
    return AccessScope(
        False,
        whole.allowed,
        frozenset(binding.namespace for binding in giving if room or not binding.model),
        frozenset((binding.namespace, binding.model) for binding in giving if binding.model and not room),
        verb,
        reason,
    )


def grants(binding: Binding, actor: Actor, verb: Verb, target: Target) -> bool:
    return (
        names_actor(binding, actor)
        and _includes_verb(binding, verb)
        and target.namespace == binding.namespace
        and (not binding.model or binding.model in _names_for(verb, target))
        and (not binding.alias or binding.alias == target.alias)
    )


def names_actor(binding: Binding, actor: Actor) -> bool:
    if actor == ANONYMOUS:
        return False
    return bool(binding.subjects & {actor.name, "*", *(f"group:{group}" for group in actor.groups)})


def _includes_verb(binding: Binding, verb: Verb) -> bool:
    return any(verb in INCLUDED[given] for given in binding.verbs)


def _names_for(verb: Verb, target: Target) -> frozenset[str]:
    return target.models | target.extra_names if verb in ("read", "predict") else target.models


def _is_public(verb: Verb, target: Target) -> bool:
    closed = {target.kind, target.involved_kind} & CLOSED_KINDS or target.subresource in CLOSED_SUBRESOURCES
    return verb in ("read", "predict") and not closed


def _can_read(actor: Actor, target: Target, own: Sequence[Binding], *, anonymous: bool) -> bool:
    return (anonymous and _is_public("read", target)) or any(grants(binding, actor, "read", target) for binding in own)


def _is_own_account(actor: Actor, verb: Verb, target: Target) -> bool:
    known = actor != ANONYMOUS and target.namespace == ""
    return known and target.kind == "User" and target.name == actor.name and verb in ("read", "write")


def _is_visible_to_members(target: Target, own: Sequence[Binding]) -> bool:
    """Whether every caller with any right may see it: the kinds, the version, and the namespaces of its bindings."""
    if target.kind == "Plane":
        return bool(own)
    return target.kind == "Namespace" and any(binding.namespace == target.namespace for binding in own)


def _refusal_text(actor: Actor, verb: Verb, target: Target, own: list[Binding]) -> str:
    deed = _describe_action(verb, target)
    if actor == ANONYMOUS:
        return f"to {deed} {NEEDS_TOKEN}"
    refused = f"{actor.name} may not {deed}"
    if not target.namespace:
        return f"{refused}: only admins of the plane may do that"
    command = _permit_command(actor, verb, target)
    return f"{refused}: {_describe_grants(target, own)}; an admin of it can grant this: {command}"


def _describe_action(verb: Verb, target: Target) -> str:
    """Returns the refused action in plain words; the right that it needs is always one of the verbs."""
    match target.kind:
        case "AuditEntry":
            where = f" of namespace {sanitize(target.namespace, LONGEST_NAMESPACE)}" if target.namespace else ""
            return f"read the audit{where}"
        case "User":
            who = f"user {sanitize(target.name, LONGEST_NAME)}" if target.name else "users"
            return f"{'see' if verb == 'read' else 'manage'} {who}"
    return f"{verb} {target}"


def _describe_grants(target: Target, own: list[Binding]) -> str:
    """Describes the actor's rights there, to explain why they are not enough."""
    verbs = {verb for binding in own for verb in binding.verbs if _is_about(binding, target)}
    if not verbs:
        return "no RoleBinding allows it"
    return f"their RoleBindings grant only {' and '.join(verb for verb in VERBS if verb in verbs)}"


def _is_about(binding: Binding, target: Target) -> bool:
    return (
        binding.namespace == target.namespace
        and (not binding.model or binding.model in target.models)
        and binding.alias in ("", target.alias)
    )


def _permit_command(actor: Actor, verb: Verb, target: Target) -> str:
    model = min(target.models, default="")
    what = f"{model}@{target.alias}" if model and target.alias else model or f"namespace/{target.namespace}"
    where = "" if not model or target.namespace == "default" else f" --namespace {target.namespace}"
    return sanitize(f"mizzen permit {actor.name} {verb} {what}{where}", LONGEST_COMMAND)
