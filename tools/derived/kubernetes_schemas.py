"""Schemas of Kubernetes' own objects, under Kubernetes' names, with our descriptions."""

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

API_VERSION = text("API group and version of this object.")
KIND = text("The kind of this object.")


def said(name: str, description: str) -> Schema:
    """A reference with its own description, which OpenAPI ignores next to a bare `$ref`."""
    return {"allOf": [ref(name)], "description": description}


def whole(description: str, /, **fields: Schema) -> Schema:
    """An object: apiVersion, kind, metadata and its own fields."""
    metadata = said(f"{META}.ObjectMeta", "Standard metadata.")
    return shape(description, apiVersion=API_VERSION, kind=KIND, metadata=metadata, **fields)


def listed(name: str) -> Schema:
    items = {**many(ref(name)), "description": "The objects, sorted by name."}
    metadata = said(f"{META}.ListMeta", "Standard list metadata.")
    fields = shape("", apiVersion=API_VERSION, kind=KIND, metadata=metadata, items=items)
    return {**fields, "required": ["items"]}


def of_kind(kind: Kind) -> Schema:
    """One of our kinds, with all fields in long form."""
    parts = {
        "spec": (kind.spec, "Desired state."),
        "status": (kind.status, "Observed state, as controllers report it."),
    }
    fields = {
        name: {"description": about, **readable(schema_of(part, long=True))} for name, (part, about) in parts.items()
    }
    return whole(kind.about, **fields)


def readable(schema: Schema) -> Schema:
    """Uses Kubernetes' IntOrString for a number or a text, which `kubectl explain` shows as the type."""
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
        "Options for a delete.",
        apiVersion=API_VERSION, kind=KIND, dryRun=many(text("Only `All`: do everything except delete.")),
        gracePeriodSeconds={**NUMBER, "description": "Grace period for running processes."},
        propagationPolicy=text("Treatment of dependents: `Foreground`, `Background` or `Orphan`."),
        preconditions=shape(
            "Conditions for the delete.",
            uid=text("The object must have this uid."),
            resourceVersion=text("The object must have this resourceVersion."),
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
"""Shared schemas; a document includes those it refers to."""

NAMESPACE = whole(
    "A scope for objects: names are unique in it, and rights can be granted for it.",
    spec=shape(
        "Desired state.",
        finalizers={**many(text()), "description": "Tasks to complete before a deleted namespace disappears."},
    ),
    status=shape("Observed state.", phase=text("`Active`, or `Terminating` while its content is being deleted.")),
)
EVENT = whole(
    "Something that happened to an object, as a component reported it. Events are kept for an hour.",
    involvedObject=shape(
        "The object concerned.",
        apiVersion=text("Its group and version."), kind=text("Its kind."), namespace=text("Its namespace."),
        name=text("Its name."), uid=text("Its uid."), resourceVersion=text("Its resourceVersion at that time."),
    ),
    reason=text("Machine-readable reason, in one word."), message=text("Readable description."),
    type=text("`Normal` or `Warning`."), count={**NUMBER, "description": "Number of occurrences."},
    firstTimestamp=text("First occurrence, in UTC."), lastTimestamp=text("Last occurrence, in UTC."),
    source=shape("The reporting component.", component=text("Name of the component.")),
    reportingComponent=text("The reporting component."),
    eventTime={**text("Not used; see the other timestamps."), "nullable": True},
)  # fmt: skip
ACCESS_REVIEW = whole(
    "Asks whether the caller may do something; the status has the answer.",
    spec=shape(
        "The question.",
        resourceAttributes=maybe(shape(
            "An action on objects.",
            verb=text("Such as `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`."),
            group=text("Their group."), version=text("Their version."), resource=text("Their kind, as a plural."),
            subresource=text("A subresource, such as `status`."), namespace=text("Their namespace; empty: all."),
            name=text("Name of one object; empty: all."),
        )),
        nonResourceAttributes=maybe(
            shape("A path that does not name an object.", path=text("The path."), verb=text("The method."))
        ),
    ),
    status=shape(
        "The answer.",
        allowed={**FLAG, "description": "The caller may do it."}, denied={**FLAG,
        "description": "The caller may not do it."},
        reason=text("Reason for the decision."), evaluationError=text("What could not be evaluated."),
    ),
)  # fmt: skip
RULES_REVIEW = whole(
    "Asks what the caller may do in a namespace; the status has the answer.",
    spec=shape("The question.", namespace=text("The namespace.")),
    status=shape(
        "The answer.",
        resourceRules=many(
            shape("", **{key: many(text()) for key in ("verbs", "apiGroups", "resources", "resourceNames")})
        ),
        nonResourceRules=many(shape("", verbs=many(text()), nonResourceURLs=many(text()))),
        incomplete={**FLAG, "description": "The caller may have more rights."},
        evaluationError=text("What could not be evaluated."),
    ),
)  # fmt: skip
SELF_REVIEW = whole(
    "Asks for the caller's identity; the status has the answer.",
    status=shape(
        "The answer.",
        userInfo=shape(
            "The caller.",
            username=text("Their name."), uid=text("Their uid."),
            groups={**many(text()), "description": "Their groups."}, extra=OPEN,
        ),
    ),
)  # fmt: skip
DEFINITION = whole(
    "The definition of a kind. Those here are part of Mizzen, and read-only.",
    spec=shape(
        "The definition.",
        group=text("Its group."), scope=text("`Namespaced`: its objects are in namespaces."),
        names=shape(
            "Names of the kind.",
            kind=text("Its name."), listKind=text("Kind of its lists."), plural=text("Name in paths."),
            singular=text("Singular name."), shortNames=many(text()), categories=many(text()),
        ),
        versions=many(
            shape(
                "A version of the kind.",
                name=text("Name of the version."), served=FLAG, storage=FLAG, schema=OPEN, subresources=OPEN,
                additionalPrinterColumns=many(OPEN), selectableFields=many(OPEN),
            )
        ),
    ),
    status=shape("Observed state.", acceptedNames=OPEN, storedVersions=many(text()), conditions=many(OPEN)),
)  # fmt: skip
