"""Kubernetes access reviews, decided by the same policy as every other request.

The verb `read` covers get, list and watch; `write` covers create, update, patch, delete and deletecollection. Only
admins write RoleBindings and namespaces, and only controllers write internal kinds. The policy's own verbs, such as
predict, are also valid here.
"""

from __future__ import annotations

from dataclasses import dataclass

from mizzen.access.policy import ANONYMOUS, VERBS, Target, Verb, Verdict
from mizzen.kinds import catalog
from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema.resource import API_GROUP, Ref
from mizzen.reconcile.controller import find
from mizzen.server.auth import targets
from mizzen.server.auth.authorization import PUBLIC, CallerPolicy
from mizzen.server.kubernetes import discovery
from mizzen.server.kubernetes.discovery import READ_VERBS
from mizzen.stores.store import Store

WRITE_VERBS = ("create", "update", "patch", "delete", "deletecollection")
ANY = "*"
ADMIN_KINDS = frozenset({"RoleBinding", "Namespace"})
"""Kinds that only admins of the namespace or model write."""
DISCOVERY_PATHS = ("/api", "/apis", "/openapi", "/version")
SUBRESOURCES = {"log": "logs", "status": "", "scale": ""}
"""Subresources with paths of their own, and the policy's name for each."""

_CORE_KINDS = {kind.plural: kind for kind in catalog.CORE}
_RESOURCE_NAMES = frozenset(part["name"] for parts in (discovery.CORE, *discovery.GROUPS.values()) for part in parts)
"""All resources, as discovery names them: `models`, `models/status`."""
_REVIEWS = frozenset(
    (version.partition("/")[0], resource["name"])
    for version in (discovery.AUTHORIZATION, discovery.AUTHENTICATION)
    for resource in discovery.GROUPS[version]
)


@dataclass(frozen=True, slots=True)
class ResourceAttributes:
    """An action, and the objects that it is about. An empty field means all of them."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class AccessReviewer:
    """Decides what one caller may do, from their identity and role bindings."""

    store: Store
    caller: CallerPolicy

    async def review(self, attributes: ResourceAttributes) -> Verdict:
        if (attributes.group, attributes.resource) in _REVIEWS:
            return self._review_self_subject(attributes)
        kinds = kinds_of(attributes.group, attributes.resource)
        if not kinds:
            return Verdict(False, f"this server has no resource '{_resource_name(attributes)}'")
        verdict = Verdict(False, "")
        for kind in kinds:
            verdict = await self._review_kind(attributes, kind, alone=attributes.resource != ANY)
            if not verdict.allowed:
                return verdict
        return verdict

    def review_path(self, path: str, verb: str) -> Verdict:
        """Decide about a path that is not the path of an object."""
        if path in PUBLIC and verb in ("get", "head"):
            return Verdict(True, "allowed for everyone")
        known = any(path == root or path.startswith(f"{root}/") for root in DISCOVERY_PATHS)
        if known and verb in ("get", "head"):
            return self.caller.decide("read", targets.PLANE)
        return self.caller.decide("admin", targets.PLANE)

    def list_verbs(self, kind: Kind, target: Target) -> tuple[str, ...]:
        """The verbs that the caller may use on this target, in the customary order."""
        writing = () if kind.internal else WRITE_VERBS
        calling = ("predict",) if kind.name in targets.CALLABLE else ()
        verbs = ((name, _policy_verb(name, kind, "")) for name in (*READ_VERBS, *writing, *calling))
        return tuple(name for name, verb in verbs if verb is not None and self.caller.decide(verb, target).allowed)

    async def _review_kind(self, attributes: ResourceAttributes, kind: Kind, *, alone: bool) -> Verdict:
        """`alone`: the review is about this kind, not about all kinds."""
        verb = _policy_verb(attributes.verb, kind, attributes.subresource)
        if verb is None:
            return Verdict(False, f"'{attributes.verb}' is not a valid verb for {kind.plural}")
        there = not attributes.subresource or f"{kind.plural}/{attributes.subresource}" in _RESOURCE_NAMES
        if attributes.subresource not in ("", *SUBRESOURCES) or (alone and not there):
            return Verdict(False, f"{kind.plural} have no subresource '{attributes.subresource}'")
        if alone and kind.internal and verb != "read":
            return Verdict(False, f"{kind.name} is internal: controllers write it, people only read it")
        part = SUBRESOURCES.get(attributes.subresource, "")
        if kind.name == "Namespace":
            return self._review_namespaces(attributes, verb)
        if attributes.name:
            ref = Ref(kind.name, attributes.name, attributes.namespace)
            return await self._review_object(ref, attributes, verb, part)
        return self._review_all(attributes, verb, Target(attributes.namespace, kind.name, "", part))

    async def _review_object(self, ref: Ref, attributes: ResourceAttributes, verb: Verb, part: str) -> Verdict:
        """Decide as for the real request: the owner counts, and objects that the caller may not read stay hidden."""
        named = targets.by_name(ref, subresource=part)
        if attributes.verb == "create":
            return self.caller.decide(verb, named)
        found = await find(self.store, ref)
        target = named if found is None else targets.of(found, subresource=part)
        return self.caller.decide(verb, target, named)

    def _review_namespaces(self, attributes: ResourceAttributes, verb: Verb) -> Verdict:
        if attributes.name:
            return self.caller.decide(verb, targets.namespace(attributes.name))
        return self._review_all(attributes, verb, targets.namespace())

    def _review_all(self, attributes: ResourceAttributes, verb: Verb, target: Target) -> Verdict:
        """Lists and watches hold only what the caller may read, so rights to any object are enough."""
        scope = self.caller.scope(verb, target)
        if attributes.verb in ("list", "watch") and scope.has_any:
            return Verdict(True, scope.reason)
        return self.caller.decide(verb, target)

    def _review_self_subject(self, attributes: ResourceAttributes) -> Verdict:
        if attributes.verb != "create":
            return Verdict(False, f"reviews support only the verb create, not '{attributes.verb}'")
        name = "every user of this machine" if self.caller.actor == ANONYMOUS else self.caller.actor.name
        return Verdict(True, f"{name} may ask about their own rights")


def kinds_of(group: str, resource: str) -> tuple[Kind, ...]:
    """The kinds that a group and a resource name; `*` stands for all of them."""
    found = ((API_GROUP, catalog.BY_PLURAL), ("", _CORE_KINDS))
    return tuple(
        kind
        for name, kinds in found
        if group in (name, ANY)
        for plural, kind in kinds.items()
        if resource in (plural, ANY)
    )


def _policy_verb(name: str, kind: Kind, subresource: str) -> Verb | None:
    """The policy's verb; None if there is no such verb, or not for this kind."""
    if name == "deletecollection" and kind.name == "Namespace":
        return None
    if name in READ_VERBS:
        return "read"
    if name in WRITE_VERBS:
        return "admin" if kind.name in ADMIN_KINDS or subresource == "status" else "write"
    if name == ANY:
        return "admin"
    return next((verb for verb in VERBS if verb == name), None)


def _resource_name(attributes: ResourceAttributes) -> str:
    return f"{attributes.resource}.{attributes.group}"[:200].rstrip(".")
