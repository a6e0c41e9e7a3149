"""Schemas of the control API that are not kinds: request and response bodies other than resources, by name."""

from __future__ import annotations

from typing import Any, TypeAlias

from mizzen.access.policy import VERBS
from mizzen.kinds.schema.crd_schema import schema_of
from mizzen.kinds.schema.resource import Spec
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.server.admin import rate_limits, users
from mizzen.server.versions.routes import OPTIONAL_FIELDS
from mizzen.server.versions.sources import OPTIONS
from tools.derived import rules

Schema: TypeAlias = dict[str, Any]


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def text(description: str = "") -> Schema:
    return {"type": "string", **({"description": description} if description else {})}


def listed(name: str) -> Schema:
    """A list as paths outside the resource API return it."""
    following = text("Start of the next page: send it as `continue`. Empty: this is the last page.")
    return always(shape("", items=many(ref(name)), metadata=always(shape("", **{"continue": following}))))


def many(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def shape(description: str, /, **fields: Schema) -> Schema:
    result: Schema = {"type": "object", "properties": fields} if fields else {"type": "object"}
    return {**result, "description": description} if description else result


def needs(schema: Schema, *required: str) -> Schema:
    return {**schema, "required": list(required)}


def closed(schema: Schema) -> Schema:
    """Without other fields: unknown ones are rejected."""
    return {**schema, "additionalProperties": False}


def always(schema: Schema, *optional: str) -> Schema:
    """All fields are required except these."""
    return needs(schema, *(name for name in schema["properties"] if name not in optional))


def maybe(schema: Schema) -> Schema:
    return {**schema, "nullable": True}


NUMBER: Schema = {"type": "integer", "format": "int64"}
FLAG: Schema = {"type": "boolean"}
AMOUNT: Schema = {"type": "number", "format": "double"}
_MANY: Schema = {**NUMBER, "minimum": 1, "maximum": rate_limits.MAX_COUNT}
WORDS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
OPEN: Schema = {"type": "object", "additionalProperties": True}
WHO_AND_WHEN = always(shape("", actor=text(), time=text()))
VERSION: Schema = {
    "description": "A number or a name.",
    "anyOf": [rules.VERSION, {"type": "integer", "minimum": 1, "maximum": rules.LARGEST_VERSION}],
}

COMMON = {
    "namespace": text(), "labels": WORDS, "annotations": WORDS, "createdAt": maybe(text("Time in UTC.")),
    "deleting": {**FLAG, "description": "Marked for deletion; it disappears once its dependents are gone."},
}  # fmt: skip
SAID: dict[str, Schema] = {
    "framework": text("Framework that loads it. Absent: the model's, else detected from the files."),
    "entrypoint": text("`module:object` for framework `python`, else the file to load."),
    "python": text("Its Python version, such as `3.12`. Absent: the plane's."),
    "image": text("A container image that serves it."),
    "parentJob": text("The TrainingJob that created it."),
    "labels": rules.LABELS,
    "annotations": rules.ANNOTATIONS,
    "requirements": many(text("A requirement as for pip. Absent: from a requirements.txt among the files.")),
    "training": {**FLAG, "description": "It is code to train, with nothing to load yet."},
}
assert set(SAID) == set(OPTIONS)


def fields_of(spec: type[Spec], **more: Schema) -> Schema:
    """The fields of a spec, none required: the path supplies the required ones."""
    whole = {key: value for key, value in schema_of(spec, long=True).items() if key != "required"}
    return {**whole, "properties": {**whole["properties"], **more}}


FILE = closed(
    needs(
        shape("", path=rules.FILE_PATH, digest=rules.DIGEST, size=maybe({**NUMBER, "minimum": 0})),
        "path", "digest",
    )
)  # fmt: skip

_MODEL = {
    "name": text(), **COMMON, "framework": maybe(text()), "track": text("`manual` or `latest`."),
    "current": maybe(text("The version that answers to the model's name.")),
    "previous": maybe(text("The previously current version.")),
    "aliases": {**WORDS, "description": "Versions by alias, as in the spec."},
    "aliasOf": maybe(text("For a second name: the model or alias that it stands for.")),
    "status": ref("ModelStatus"),
}  # fmt: skip
_VERSION = {
    "name": text("The ModelVersion object: `<model>.<version>`."), **COMMON, "model": text(), "version": text(),
    "current": FLAG, "framework": maybe(text()), "entrypoint": maybe(text()), "artifacts": many(OPEN),
    "createdBy": text(), "status": ref("ModelVersionStatus"), "code": OPEN, "source": OPEN,
    "requirements": many(text()), "python": text(), "image": text(), "parentJob": text(),
}  # fmt: skip
_TOKEN = {
    "id": text(), "user": text(), "created": text(), "createdBy": text(), "expires": maybe(text()),
    "revoked": maybe(text()), "valid": FLAG, "note": text(),
}  # fmt: skip
_USER = {"name": text(), "created": text(), "createdBy": text()}

OBJECT_META = shape(
    "Clients set name, namespace, labels and annotations; the server sets the rest.",
    name=text("Unique for its kind in a namespace; immutable."),
    namespace=text("Its namespace; `default` if absent."),
    uid=text("Unique to this object; names can be reused."),
    resourceVersion=text("Changes with every write. Send it back to write only if the object is unchanged."),
    generation={**NUMBER, "description": "Number of spec changes."},
    creationTimestamp=text("When it was created, in UTC."),
    deletionTimestamp=text("When its deletion was requested. It disappears once it has no finalizers."),
    labels={**WORDS, "description": "Key-value pairs to select objects by."},
    annotations={**WORDS, "description": "Additional information for people and programs."},
    ownerReferences={
        **many(
            shape(
                "",
                apiVersion=text("Its group and version."), kind=text("Its kind."), name=text("Its name."),
                uid=text("Its uid."), controller={**FLAG, "description": "Whether this owner is the controller."},
                blockOwnerDeletion={**FLAG, "description": "Whether the owner's deletion waits for this object."},
            )
        ),
        "description": "Owners of this object; it is deleted with them.",
    },
    finalizers={**many(text()), "description": "Tasks to complete before a deleted object disappears."},
    managedFields={
        **many(
            shape(
                "",
                manager=text("The manager: a client's name for itself."),
                operation={"type": "string", "enum": ["Apply", "Update"], "description": "How it wrote the fields."},
                apiVersion=text("API version of the fields."), time=text("Time of the last write."),
                fieldsType=text("Always `FieldsV1`."), fieldsV1={**OPEN,
                "description": "The fields, as a tree of paths."},
                subresource=text("The written subresource, such as `status`."),
            )
        ),
        "description": "Field owners, for server-side apply.",
    },
)  # fmt: skip
LIST_META = shape(
    "Version of the list, and whether it has more pages.",
    resourceVersion=text("A watch may start here."),
    **{"continue": text("Start of the next page: send it as `continue`. Empty: this is the last page.")},
)

SHAPES: dict[str, Schema] = {
    "Status": needs(shape(
        "Result of a request. For errors: the cause, every fault with its field path, and a hint.",
        kind=text(), apiVersion=text(), metadata=OPEN, status={"type": "string", "enum": ["Failure", "Success"]},
        reason=text("Machine-readable reason."), message=text("Readable message."), code=NUMBER,
        details=shape(
            "",
            causes=many(shape("", field=text(), message=text(), reason=text("Machine-readable reason, or empty."))),
            hint=text("What to do next."), group=text("Group of the requested object."), kind=text("Its plural."),
            name=text("Its name."), uid=text("Uid of the deleted object."),
        ),
    ), "kind", "apiVersion", "metadata", "status"),
    "Patch": {"description": "A merge patch, as in RFC 7396.", "type": "object"},
    "JsonPatch": {**many(OPEN), "description": "A JSON patch, as in RFC 6902."},
    "Scale": shape(
        "Desired and actual number of replicas.",
        apiVersion=text("`autoscaling/v1`"), kind=text("`Scale`"), metadata=ref("ObjectMeta"),
        spec=shape("Desired state.", replicas={**NUMBER, "description": "Desired number of replicas."}),
        status=shape(
            "Actual state.",
            replicas={**NUMBER, "description": "Actual number of replicas."},
            selector=text("Label selector of the replicas."),
        ),
    ),
    "ObjectMeta": OBJECT_META,
    "ListMeta": LIST_META,
    "WatchEvent": shape(
        "One line of a watch.",
        type={"type": "string", "enum": ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]}, object=OPEN,
    ),
    "Index": always(shape("", name=text(), inference=text("URL of the inference API."), links=OPEN)),
    "Live": always(shape("", live=FLAG)),
    "Readiness": always(shape("", ready=FLAG)),
    "Version": always(shape(
        "Mizzen's version, and the Kubernetes version for Kubernetes clients.",
        version=text("Version of Mizzen."), gitVersion=text("Version of Kubernetes, with Mizzen's after a plus."),
        **{name: text() for name in ("major", "minor", "gitCommit", "gitTreeState", "buildDate", "goVersion")},
        compiler=text(), platform=text(),
    )),
    "Usage": always(shape(
        "Figures of the last seconds; counts of waiting and running requests are current.",
        time=text("Time in UTC."),
        seconds={**AMOUNT, "description": "Time span of rates and quantiles; 0 right after a start."},
        total=ref("TotalUsage"), models=many(ref("ModelUsage")), processes=many(ref("ProcessUsage")),
    )),
    "TotalUsage": always(shape(
        "Sum over all listed models.",
        requestsPerSecond=AMOUNT, errorsPerSecond=AMOUNT, p50=maybe(AMOUNT), p95=maybe(AMOUNT), p99=maybe(AMOUNT),
    )),
    "ModelUsage": always(shape(
        "Figures of a version that is served, or was called in the last seconds. Calls count for the model that "
        "answers, whatever name they use.",
        namespace=text(), name=text("The model."), version=text(),
        servers={**many(text()), "description": "The InferenceModels that serve it."},
        requestsPerSecond=AMOUNT, errorsPerSecond={**AMOUNT,
        "description": "Responses with a status code of 500 or more."},
        codesPerSecond={"type": "object", "additionalProperties": AMOUNT, "description": "By HTTP status code."},
        **{
            name: maybe({**AMOUNT,
            "description": f"Latency in seconds of the {share}th percentile. Null: no requests."})
            for name, share in (("p50", 50), ("p95", 95), ("p99", 99))
        },
        inFlight={**NUMBER, "description": "Requests in progress."},
        waiting={**NUMBER, "description": "Calls waiting for a replica."},
        callsPerBatch=maybe(AMOUNT),
        shedPerSecond={**AMOUNT, "description": "Rejected because too many calls were waiting."},
        expiredPerSecond={**AMOUNT, "description": "Calls whose deadline passed."},
        retriedPerSecond={**AMOUNT, "description": "Calls retried after their process was lost."},
        replicasReady=NUMBER, replicasWanted=NUMBER,
        memoryBytes={**NUMBER, "description": "Resident memory of all replicas."},
        cpu={**AMOUNT, "description": "CPU cores used by all replicas."},
        accuracy=maybe({**AMOUNT, "description": "Accuracy by feedback with ground truth. Null: no such feedback."}),
        reward=maybe({**AMOUNT, "description": "Mean reward. Null: no feedback."}),
    )),
    "ProcessUsage": always(shape(
        "A process of the plane itself.",
        name=text("`plane`, `supervisor`, `gateway-0`, …"), memoryBytes=NUMBER, cpu=AMOUNT, restarts=NUMBER,
    )),
    "UsageHistory": always(shape(
        "Points, oldest first.",
        seconds={**NUMBER, "description": "Seconds between two points."},
        columns={**many(text()), "description": "Meaning of the numbers of a point; times are in seconds since 1970."},
        series=many(always(shape(
            "History of one version of a model.",
            namespace=text(), name=text(), version=text(), points=many(many(maybe(AMOUNT))),
        ))),
    )),
    "GraphView": always(shape(
        "Rates cover the last seconds; shares, disagreement and shadowing cover the time since the gateways started.",
        name=text(), namespace=text(), generation={**NUMBER, "description": "Generation of the spec shown here."},
        wanted={**NUMBER, "description": "Generation of the desired spec."},
        serving=maybe({**NUMBER, "description": "Generation of the spec in service. Null: none."}),
        ready=FLAG, message=text("Why it is ready or not."), url=maybe(text("URL for calls.")),
        seconds={**AMOUNT, "description": "Time span of rates; 0 right after a start."},
        nodes={**many(ref("GraphNodeView")), "description": "In dependency order."},
        edges=many(always(shape(
            "", **{"from": text(), "to": text()}, shadow={**FLAG,
            "description": "The child gets only copies of requests."},
            traffic=maybe({**NUMBER, "description": "Percentage, for a split with weights."}), perSecond=AMOUNT,
        ))),
    )),
    "GraphNodeView": always(shape(
        "",
        name=text(), ready=FLAG, reason=text("Why it is not ready."),
        merge=maybe(text("`mean`, `vote` or `call`.")),
        calls=many(always(shape(
            "", role={"type": "string", "enum": ["merge", "implementation", "route"]},
            kind={"type": "string", "enum": ["served", "service", "container"]}, name=text(),
        ))),
        route=maybe(text("`split`, `call`, `cascade` or the policy of a bandit. Null: all children.")),
        shadow=FLAG, messagesPerSecond=AMOUNT, errorsPerSecond={**AMOUNT, "description": "Calls that failed."},
        meanMs=maybe({**AMOUNT, "description": "Mean latency of its calls. Null: no calls."}),
        selection=maybe(always(shape(
            "Null: it has not routed yet.",
            shares={"type": "object", "additionalProperties": AMOUNT, "description": "By child."},
            entropy=maybe({**AMOUNT,
            "description": "Entropy of the shares: 1 if they are equal, 0 if one child has all."}),
        ))),
        disagreement={**many(always(shape(
            "", one=text(), other=text(), count=NUMBER,
            mean={**AMOUNT, "description": "Mean disagreement, from 0 to 1."},
        ))), "description": "Between members of an ensemble, on the same requests."},
        shadowing=maybe(always(shape(
            "For a shadow: its responses compared with those returned.",
            agreed=NUMBER, differed=NUMBER, agreement={**AMOUNT, "description": "Share of equal responses."},
        ))),
    )),
    "GraphState": always(shape(
        "",
        name=text(), namespace=text(), user=text("The requested user; empty: none."),
        feedback={**NUMBER, "description": "Number of feedback entries that are kept."},
        nodes={**many(ref("BanditState")), "description": "Nodes with a bandit."},
        quality=many(always(shape(
            "Quality of one version at one node.",
            node=text(), version=text(), rewards=NUMBER, rewardMean=maybe(AMOUNT), truths=NUMBER,
            accuracy=maybe({**AMOUNT, "description": "Accuracy by feedback with ground truth."}),
        ))),
    )),
    "BanditState": always(shape(
        "",
        node=text(), policy=text(), parameters={**OPEN, "description": "Parameters of the policy."}, perUser=FLAG,
        own={**FLAG, "description": "The arms show the requested user's state, not the shared one."},
        users={**NUMBER, "description": "Number of users with their own state."}, feedback=NUMBER,
        arms=many(always(shape(
            "", arm=text(), count={**NUMBER, "description": "Number of feedback entries."}, mean=maybe(AMOUNT),
            interval={**many(AMOUNT), "description": "95 % confidence interval of the mean: lower and upper bound."},
            weight={**AMOUNT, "description": "Weight in exp3; all start at 1."}, best=FLAG,
        ))),
    )),
    "Deleted": needs(
        shape("It is deleted.", name=text(), id=text(), namespace=text(), deleted=FLAG, bindings=many(OPEN)), "deleted"
    ),
    "Loaded": shape("It is done.", name=text(), servers={**many(text()), "description": "The affected servers."}),
    "NewModel": closed(needs(shape(
        "",
        name=rules.NAME, framework=maybe(rules.FRAMEWORK), labels=maybe(rules.LABELS),
        annotations=maybe(rules.ANNOTATIONS),
    ), "name")),
    "ModelView": needs(
        shape("A model, as the /model paths show it. Callers with rights to one alias only see just that.", **_MODEL),
        "name", "namespace", "aliases",
    ),
    "ModelDescription": always(shape(
        "A model with everything that belongs to it, as one consistent snapshot.",
        **_MODEL, versions=many(ref("VersionView")), versionCount=NUMBER, servers=many(ref("ServerView")),
        jobs=many(ref("JobView")), jobCount=NUMBER, checkpoints={**NUMBER,
        "description": "Number of checkpoints of all its versions."},
        monitor=maybe(OPEN), rollouts=many(text()), secondNames=many(text()),
        lastChanged=maybe(WHO_AND_WHEN),
    )),
    "WhichVersion": closed(needs(shape("", version=VERSION), "version")),
    "WhichVersionOrPrevious": closed(shape("Absent: the previously current version.", version=VERSION)),
    "NewVersion": closed(shape(
        "One source (`path`, `git`, `downloadURL`, `files`, `archive`) or an `image`, and options.",
        path=text("A file or folder on the plane's machine; only for admins of the plane."),
        git=closed(needs(
            shape("", repo=text(), ref=text("A branch, tag or commit; HEAD if absent."), path=text()), "repo"
        )),
        downloadURL=text("http(s) URL of a file or archive."), sha256sum=text("sha256 of the download."),
        insecureSkipVerify={**FLAG, "description": "Do not verify the download."},
        files={**many(FILE), "minItems": 1}, archive=rules.DIGEST, **SAID,
    )),
    "VersionForm": closed(needs(
        shape(
            "An archive or file, and options as text.",
            code={"type": "string", "format": "binary", "description": "The archive or file."},
            **{name: text(field.get("description", "")) for name, field in SAID.items()},
        ),
        "code",
    )),
    "CurrentVersion": always(shape("", name=text(), namespace=text(), version=text(), actor=text(), time=text())),
    "VersionView": always(shape("A version, as the /model paths show it.", **_VERSION), *OPTIONAL_FIELDS),
    "VersionDescription": always(shape(
        "A version, and its changes since the previous one.",
        **_VERSION, changed=always(shape("", code=FLAG, data=FLAG)),
        jobs={**many(text()), "description": "Job sets that train or trained it."}, checkpoints=NUMBER,
        newestCheckpoint=maybe(text("The checkpoint that new servers use by default.")),
    ), *OPTIONAL_FIELDS),
    "Files": closed(needs(shape("", files={**many(FILE), "minItems": 1}), "files")),
    "Missing": always(shape("", missing=many(text("A digest that has to be uploaded.")))),
    "Piece": always(shape(
        "", digest=text(), offset={**NUMBER, "description": "Bytes received so far."}, complete=FLAG
    )),
    "NewServer": closed(fields_of(
        InferenceModelSpec, checkpoint_id=text("The checkpoint to serve. Absent: the newest of the version, if any.")
    )),
    "ServerView": always(shape(
        "One server of a version.",
        id=text("The InferenceModel object."), **COMMON, model=text(), version=maybe(text()),
        checkpoint_id=maybe(text("The checkpoint it serves. Null: the version's own files.")),
        parent_job=maybe(text("The job set that saved the checkpoint.")), url=text(), ready=FLAG, replicas=NUMBER,
        readyReplicas=NUMBER, status=ref("InferenceModelStatus"),
    )),
    "HistoryEntry": always(shape(
        "One change or decision.",
        actor=text(), time=text(), action=text(), before=maybe(OPEN), after=maybe(OPEN), number=NUMBER,
        object=text("The object, as `Kind/name`."),
    )),
    "ModelThen": always(shape(
        "A model at a past time.",
        name=text(), namespace=text(), at=text(), spec=OPEN, status=OPEN, versions=many(text()),
        lastChanged=WHO_AND_WHEN,
    )),
    "Binding": always(shape(
        "",
        name=text(), verbs=many({"type": "string", "enum": list(VERBS)}),
        target=shape("", namespace=text(), model=text(), alias=text()),
    )),
    "WhoAmI": always(shape(
        "", name=text(), groups=many(text()), admin=FLAG, bindings=many(ref("Binding")),
        open={**FLAG, "description": "Whether all users of this machine may read and predict without a token."},
    )),
    "NewUser": closed(needs(shape("", name=rules.USER), "name")),
    "User": always(shape("", **_USER)),
    "UserDescription": always(shape("", **_USER, bindings=many(ref("Binding")))),
    "LimitValues": closed(shape(
        "Absent fields mean no limit; at least one is required.",
        perSecond=maybe({**AMOUNT, "minimum": 0, "exclusiveMinimum": True, "maximum": rate_limits.MAX_PER_SECOND}),
        burst=maybe({**_MANY, "description": "Requests allowed at once; needs perSecond."}), perDay=maybe(_MANY),
        perMonth=maybe(_MANY),
    )),
    "Limit": always(shape(
        "Rate limit of a subject.",
        subject=text("A user's name, `group:<name>`, `*` for every user with a token, or `anonymous`."),
        perSecond=maybe(AMOUNT), burst=maybe(NUMBER), perDay=maybe(NUMBER), perMonth=maybe(NUMBER),
        used={"type": "object", "additionalProperties": NUMBER,
              "description": "Requests in this `day` and `month`, in UTC, if they are counted."},
        updated=text(), updatedBy=text(),
    )),
    "NewToken": closed(shape(
        "",
        expiresIn=maybe({**rules.DURATION, "description": "Lifetime, such as `30d`. Absent: it never expires."}),
        note=maybe({**text(), "maxLength": users.MAX_NOTE_LENGTH}),
    )),
    "CreatedToken": always(shape(
        "The only response that contains the token.", id=text(), token=text(), user=text(), expires=maybe(text())
    )),
    "Token": always(shape("A token without its secret value.", **_TOKEN)),
    "SecretValues": closed(needs(shape("", data={**rules.SECRET, "description": "Values, by key."}), "data")),
    "Secret": always(shape(
        "A secret without its values.",
        name=text(), namespace=text(), keys=many(text()), updated=text(), updatedBy=text(),
    )),
    "AuditEntry": always(shape(
        "A request, its caller, and whether it was allowed.",
        number=NUMBER, time=text(), actor=text(), verb=text(), kind=text(), namespace=text(), name=text(),
        allowed=FLAG, reason=text(), method=text(), path=text(), code=NUMBER, source=text(), count=NUMBER,
    )),
}  # fmt: skip

LISTS: dict[str, Schema] = {
    f"{name}List": listed(name)
    for name in (
        "ModelView",
        "VersionView",
        "ServerView",
        "HistoryEntry",
        "User",
        "Token",
        "Limit",
        "Secret",
        "AuditEntry",
    )
}
PAST: Schema = {
    "description": "A page of history; with `at`, the model at that time.",
    "anyOf": [ref("HistoryEntryList"), ref("ModelThen")],
}
