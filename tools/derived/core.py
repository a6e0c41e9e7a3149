"""Shapes of Kubernetes' own in openapi.json: discovery, and kinds of the core group. Schemas by name.

The kinds are those of the documents for kubectl, by shorter names.
"""

from __future__ import annotations

from typing import Any

from tools.derived import kubernetes_schemas
from tools.derived.shapes import FLAG, OPEN, Schema, always, many, needs, ref, shape, text

_VERSION = always(shape("", groupVersion=text("With its group."), version=text("Without it.")))
_GROUP = {"name": text(), "versions": many(_VERSION), "preferredVersion": _VERSION}
_HEAD = {"kind": text(), "apiVersion": text()}

_DISCOVERY: dict[str, Schema] = {
    "APIVersions": always(
        shape("Versions of the core group.", kind=text(), versions=many(text()), serverAddressByClientCIDRs=many(OPEN))
    ),
    "APIGroup": always(shape("A group, and its versions.", **_HEAD, **_GROUP)),
    "APIGroupList": always(shape("Groups, and their versions.", **_HEAD, groups=many(always(shape("", **_GROUP))))),
    "APIResourceList": always(
        shape(
            "Kinds, and what one may do with them.",
            **_HEAD,
            groupVersion=text(),
            resources=many(
                needs(
                    shape(
                        "",
                        name=text("Its plural, as it stands in paths; of a part of it, with the part after a slash."),
                        singularName=text(), namespaced=FLAG, kind=text(), verbs=many(text()), shortNames=many(text()),
                        categories=many(text()), group=text("When it is another one."), version=text("Likewise."),
                    ),
                    "name", "singularName", "namespaced", "kind", "verbs",
                )
            ),
        )
    ),
    "OlderDocument": always(shape("As older clients read it.", swagger=text(), info=OPEN, paths=OPEN)),
    "Documents": always(
        shape(
            "By group and version.",
            paths={
                "type": "object",
                "additionalProperties": always(shape("", serverRelativeURL=text("Where it is, with its hash."))),
            },
        )
    ),
}  # fmt: skip


def _ours(node: Any) -> Any:
    """With our names of shapes; and a reference alone, as it stands everywhere in ours."""
    match node:
        case {"allOf": [{"$ref": str(target)}]} | {"$ref": str(target)}:
            return ref(target.rpartition(".")[2])
        case dict():
            return {key: _ours(value) for key, value in node.items()}
        case list():
            return [_ours(item) for item in node]
    return node


def _kind(schema: Schema, version: str, name: str) -> Schema:
    said = {"apiVersion": {"type": "string", "enum": [version]}, "kind": {"type": "string", "enum": [name]}}
    return {**_ours(schema), "properties": {**_ours(schema["properties"]), **said}, "required": [*said, "metadata"]}


def _listed(name: str) -> Schema:
    return always(shape("", apiVersion=text(), kind=text(), metadata=ref("ListMeta"), items=many(ref(name))))


CORE: dict[str, Schema] = {
    **_DISCOVERY,
    **{
        name: _kind(schema, version, name)
        for name, version, schema in (
            ("Namespace", "v1", kubernetes_schemas.NAMESPACE),
            ("Event", "v1", kubernetes_schemas.EVENT),
            ("SelfSubjectAccessReview", "authorization.k8s.io/v1", kubernetes_schemas.ACCESS_REVIEW),
            ("SelfSubjectRulesReview", "authorization.k8s.io/v1", kubernetes_schemas.RULES_REVIEW),
            ("SelfSubjectReview", "authentication.k8s.io/v1", kubernetes_schemas.SELF_REVIEW),
        )
    },
    "NamespaceList": _listed("Namespace"),
    "EventList": _listed("Event"),
}
