"""Shapes of Kubernetes' own that its clients meet here, by the names it gives them. In our words."""

from __future__ import annotations

from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema.crd_schema import schema_of
from tools.derived.shapes import (
    FLAG,
    LIST_META,
    NUMBER,
    OBJECT_META,
    OPEN,
    SHAPES,
    Schema,
    many,
    maybe,
    ref,
    shape,
    text,
)

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
CORE = "io.k8s.api.core.v1"
AUTHORIZATION = "io.k8s.api.authorization.v1"
AUTHENTICATION = "io.k8s.api.authentication.v1"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"

INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

API_VERSION = text("The group and version that this is written in.")
KIND = text("Which kind this is.")


def said(name: str, description: str) -> Schema:
    """A reference with words of its own: beside a bare one they would not count."""
    return {"allOf": [ref(name)], "description": description}


def whole(description: str, /, **fields: Schema) -> Schema:
    """An object: what names it, and its own fields."""
    metadata = said(f"{META}.ObjectMeta", "Who the object is.")
    return shape(description, apiVersion=API_VERSION, kind=KIND, metadata=metadata, **fields)


def listed(name: str) -> Schema:
    items = {**many(ref(name)), "description": "The objects, by name."}
    metadata = said(f"{META}.ListMeta", "Where the list stands.")
    fields = shape("", apiVersion=API_VERSION, kind=KIND, metadata=metadata, items=items)
    return {**fields, "required": ["items"]}


def of_kind(kind: Kind) -> Schema:
    """A kind of ours, with all its fields in their long form."""
    parts = {"spec": (kind.spec, "What is wanted."), "status": (kind.status, "What is so, as controllers report it.")}
    fields = {
        name: {"description": about, **readable(schema_of(part, long=True))} for name, (part, about) in parts.items()
    }
    return whole(kind.about, **fields)


def readable(schema: Schema) -> Schema:
    """With the name that Kubernetes has for what is a number or a text: `kubectl explain` shows it as the type."""
    if schema.get("x-kubernetes-int-or-string"):
        return said(INT_OR_STRING, schema.get("description", ""))
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {name: readable(inner) for name, inner in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = readable(schema[key])
    return result


SHARED: dict[str, Schema] = {
    INT_OR_STRING: {
        "description": "A number or a text.", "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    f"{META}.ObjectMeta": OBJECT_META,
    f"{META}.ListMeta": LIST_META,
    f"{META}.Status": SHAPES["Status"],
    f"{META}.WatchEvent": SHAPES["WatchEvent"],
    f"{META}.DeleteOptions": shape(
        "How to delete.",
        apiVersion=API_VERSION, kind=KIND, dryRun=many(text("Only `All`: do everything but delete.")),
        gracePeriodSeconds={**NUMBER, "description": "How long what runs may take to end."},
        propagationPolicy=text("What becomes of what belongs to it: `Foreground`, `Background` or `Orphan`."),
        preconditions=shape(
            "What must hold, or nothing is deleted.",
            uid=text("It is still this object."), resourceVersion=text("Nobody has written it since."),
        ),
    ),
    f"{META}.Patch": SHAPES["Patch"],
    f"{META}.JsonPatch": SHAPES["JsonPatch"],
    "io.k8s.api.autoscaling.v1.Scale": {
        **whole(
            SHAPES["Scale"]["description"], **{part: SHAPES["Scale"]["properties"][part] for part in ("spec", "status")}
        ),
        "x-kubernetes-group-version-kind": [{"group": "autoscaling", "version": "v1", "kind": "Scale"}],
    },
}  # fmt: skip
"""A document takes of these what it refers to."""

NAMESPACE = whole(
    "A place for objects: names are unique in it, and rights are given for it.",
    spec=shape(
        "What is wanted.",
        finalizers={**many(text()), "description": "What has to be done before a deleted one goes."},
    ),
    status=shape("What is so.", phase=text("`Active`, or `Terminating` while all in it is deleted.")),
)
EVENT = whole(
    "Something that happened to an object, as whoever saw it reports it. Events are kept for an hour.",
    involvedObject=shape(
        "What it happened to.",
        apiVersion=text("Its group and version."), kind=text("Its kind."), namespace=text("Where it is."),
        name=text("Its name."), uid=text("Its uid."), resourceVersion=text("As it was then."),
    ),
    reason=text("What happened, in one word."), message=text("What happened, in a person's words."),
    type=text("`Normal` or `Warning`."), count={**NUMBER, "description": "How often it happened."},
    firstTimestamp=text("When it happened first, in UTC."), lastTimestamp=text("When it happened last, in UTC."),
    source=shape("Who reports it.", component=text("The part of the plane.")),
    reportingComponent=text("Who reports it."),
    eventTime={**text("Not used: see the other times."), "nullable": True},
)  # fmt: skip
ACCESS_REVIEW = whole(
    "May I? Asked by sending it; the answer is in its status.",
    spec=shape(
        "What is asked about.",
        resourceAttributes=maybe(shape(
            "Something to be done with objects.",
            verb=text("Such as `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`."),
            group=text("Their group."), version=text("Their version."), resource=text("Their kind, as a plural."),
            subresource=text("A part of them, such as `status`."), namespace=text("Where; empty: everywhere."),
            name=text("Which one; empty: all of them."),
        )),
        nonResourceAttributes=maybe(
            shape("A path that is no object's.", path=text("The path."), verb=text("The method."))
        ),
    ),
    status=shape(
        "The answer.",
        allowed={**FLAG, "description": "Yes."}, denied={**FLAG, "description": "No, whatever others may allow."},
        reason=text("Why."), evaluationError=text("What could not be found out."),
    ),
)  # fmt: skip
RULES_REVIEW = whole(
    "What may I do in a namespace? The answer is in its status.",
    spec=shape("What is asked about.", namespace=text("The namespace.")),
    status=shape(
        "The answer.",
        resourceRules=many(
            shape("", **{key: many(text()) for key in ("verbs", "apiGroups", "resources", "resourceNames")})
        ),
        nonResourceRules=many(shape("", verbs=many(text()), nonResourceURLs=many(text()))),
        incomplete={**FLAG, "description": "There may be more."}, evaluationError=text("What could not be found out."),
    ),
)  # fmt: skip
SELF_REVIEW = whole(
    "Who am I? The answer is in its status.",
    status=shape(
        "The answer.",
        userInfo=shape(
            "Whoever asks.",
            username=text("Their name."), uid=text("Their uid."),
            groups={**many(text()), "description": "Groups they are in."}, extra=OPEN,
        ),
    ),
)  # fmt: skip
DEFINITION = whole(
    "A kind, as it is defined. Those here are part of Mizzen, and only read.",
    spec=shape(
        "What the kind is.",
        group=text("Its group."), scope=text("Namespaced: its objects are in namespaces."),
        names=shape(
            "How it is called.",
            kind=text("Its name."), listKind=text("That of its lists."), plural=text("As it stands in paths."),
            singular=text("As people say it."), shortNames=many(text()), categories=many(text()),
        ),
        versions=many(
            shape(
                "How its objects are written.",
                name=text("Of the version."), served=FLAG, storage=FLAG, schema=OPEN, subresources=OPEN,
                additionalPrinterColumns=many(OPEN), selectableFields=many(OPEN),
            )
        ),
    ),
    status=shape("Whether it is known.", acceptedNames=OPEN, storedVersions=many(text()), conditions=many(OPEN)),
)  # fmt: skip
