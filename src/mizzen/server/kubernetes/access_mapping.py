"""What people ask of their rights in the words of Kubernetes, decided by the policy that decides everything else.

Reading is get, list and watch; writing is create, update, patch, delete and deletecollection. A RoleBinding and a
namespace are written by admins, and what controllers write is written by nobody else. The policy's own verbs, such as
predict, are verbs here as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mizzen.access import policy
from mizzen.access.policy import ANONYMOUS, VERBS, Actor, Binding, Target, Verb, Verdict
from mizzen.errors import NotFound
from mizzen.kinds import catalog
from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema.resource import API_GROUP, Ref
from mizzen.server.auth import targets
from mizzen.server.auth.authorization import PUBLIC
from mizzen.server.http.context import Plane
from mizzen.server.kubernetes import discovery

READING = ("get", "list", "watch")
WRITING = ("create", "update", "patch", "delete", "deletecollection")
ANY = "*"
ADMINS = frozenset({"RoleBinding", "Namespace"})
"""Kinds that are written by those who administer what they are about."""
DISCOVERY = ("/api", "/apis", "/openapi", "/version")
PARTS = {"log": "logs", "status": "", "scale": ""}
"""Parts of objects that have paths of their own, as the policy calls them."""

_CORE = {kind.plural: kind for kind in catalog.CORE}
_PARTED = frozenset(part["name"] for parts in (discovery.CORE, *discovery.GROUPS.values()) for part in parts)
"""All that there is, as discovery names it: `models`, `models/status`."""
_REVIEWS = frozenset(
    (version.partition("/")[0], resource["name"])
    for version in (discovery.AUTHORIZATION, discovery.AUTHENTICATION)
    for resource in discovery.GROUPS[version]
)


@dataclass(frozen=True, slots=True)
class Question:
    """May I do this with that? Empty: all of them."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and all that their rights follow from."""

    plane: Plane
    actor: Actor
    bindings: Sequence[Binding]

    async def may(self, question: Question) -> Verdict:
        if (question.group, question.resource) in _REVIEWS:
            return self._self_review(question)
        kinds = kinds_of(question.group, question.resource)
        if not kinds:
            return Verdict(False, f"there is no resource '{_named(question)}' here")
        verdict = Verdict(False, "")
        for kind in kinds:
            verdict = await self._of_kind(question, kind, alone=question.resource != ANY)
            if not verdict.allowed:
                return verdict
        return verdict

    def may_at(self, path: str, verb: str) -> Verdict:
        """For a path that stands for no object."""
        if path in PUBLIC and verb in ("get", "head"):
            return Verdict(True, "anybody may")
        known = any(path == root or path.startswith(f"{root}/") for root in DISCOVERY)
        if known and verb in ("get", "head"):
            return self.decide("read", targets.PLANE)
        return self.decide("admin", targets.PLANE)

    def decide(self, verb: Verb, target: Target, named: Target | None = None) -> Verdict:
        anonymous = self.plane.anonymous
        return policy.allowed(self.actor, verb, target, self.bindings, anonymous=anonymous, named=named)

    def verbs_for(self, kind: Kind, target: Target) -> tuple[str, ...]:
        """All that may be done with this, in the order in which people list it."""
        writing = () if kind.internal else WRITING
        calling = ("predict",) if kind.name in targets.CALLABLE else ()
        wanted = ((asked, _verb(asked, kind, "")) for asked in (*READING, *writing, *calling))
        return tuple(asked for asked, verb in wanted if verb is not None and self.decide(verb, target).allowed)

    async def _of_kind(self, question: Question, kind: Kind, *, alone: bool) -> Verdict:
        """`alone`: asked of this kind, and not of all there are."""
        verb = _verb(question.verb, kind, question.subresource)
        if verb is None:
            return Verdict(False, f"'{question.verb}' is nothing that can be done with {kind.plural}")
        there = not question.subresource or f"{kind.plural}/{question.subresource}" in _PARTED
        if question.subresource not in ("", *PARTS) or (alone and not there):
            return Verdict(False, f"{kind.plural} have no '{question.subresource}'")
        if alone and kind.internal and verb != "read":
            return Verdict(False, f"{kind.name} is internal: controllers write it, people only read it")
        part = PARTS.get(question.subresource, "")
        if kind.name == "Namespace":
            return self._of_namespaces(question, verb)
        if question.name:
            return await self._of_object(Ref(kind.name, question.name, question.namespace), question, verb, part)
        target = Target(question.namespace, kind.name, "", part)
        return self._some(verb, target) if question.verb in ("list", "watch") else self.decide(verb, target)

    async def _of_object(self, ref: Ref, question: Question, verb: Verb, part: str) -> Verdict:
        """As when it is really done: what it belongs to counts, and nobody learns of what they may not read."""
        named = targets.named(ref, subresource=part)
        if question.verb == "create":
            return self.decide(verb, named)
        try:
            found = targets.of(await self.plane.store.get(ref), subresource=part)
        except NotFound:
            found = named
        return self.decide(verb, found, named)

    def _of_namespaces(self, question: Question, verb: Verb) -> Verdict:
        if not question.name and question.verb in ("list", "watch"):
            return self._some(verb, targets.namespace())
        return self.decide(verb, targets.namespace(question.name))

    def _some(self, verb: Verb, target: Target) -> Verdict:
        """Lists and watches hold what their reader may see: it is enough that there is something."""
        reach = policy.reach(
            self.actor, verb, target.namespace, target.kind, self.bindings,
            anonymous=self.plane.anonymous, subresource=target.subresource,
        )  # fmt: skip
        return Verdict(True, reach.reason) if reach.something else self.decide(verb, target)

    def _self_review(self, question: Question) -> Verdict:
        if question.verb != "create":
            return Verdict(False, f"a review is only created, not '{question.verb}'")
        who = "anybody on this machine" if self.actor == ANONYMOUS else self.actor.name
        return Verdict(True, f"{who} may ask about themselves")


def kinds_of(group: str, resource: str) -> tuple[Kind, ...]:
    """Which kinds are meant; `*` for all of a group, or of all groups."""
    found = ((API_GROUP, catalog.BY_PLURAL), ("", _CORE))
    return tuple(
        kind
        for name, kinds in found
        if group in (name, ANY)
        for plural, kind in kinds.items()
        if resource in (plural, ANY)
    )


def _verb(asked: str, kind: Kind, subresource: str) -> Verb | None:
    """None: there is no such verb, or not for this kind."""
    if asked == "deletecollection" and kind.name == "Namespace":
        return None
    if asked in READING:
        return "read"
    if asked in WRITING:
        return "admin" if kind.name in ADMINS or subresource == "status" else "write"
    if asked == ANY:
        return "admin"
    return next((verb for verb in VERBS if verb == asked), None)


def _named(question: Question) -> str:
    return f"{question.resource}.{question.group}"[:200].rstrip(".")
