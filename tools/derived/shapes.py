"""Shapes of the control API that are no kinds: what its paths take and answer beside resources. Schemas by name."""

from __future__ import annotations

from typing import Any, TypeAlias

from mizzen.access.policy import VERBS
from mizzen.kinds.schema.crd_schema import schema_of
from mizzen.kinds.schema.resource import Spec
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.server.admin import rate_limits, users
from mizzen.server.versions.routes import SHOWN
from mizzen.server.versions.sources import OPTIONS
from tools.derived import rules

Schema: TypeAlias = dict[str, Any]


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def text(description: str = "") -> Schema:
    return {"type": "string", **({"description": description} if description else {})}


def listed(name: str) -> Schema:
    """A list as the paths outside of the resource API answer it."""
    following = text("Where the next page begins: send it as `continue`. Empty: this was the last.")
    return always(shape("", items=many(ref(name)), metadata=always(shape("", **{"continue": following}))))


def many(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def shape(description: str, /, **fields: Schema) -> Schema:
    result: Schema = {"type": "object", "properties": fields} if fields else {"type": "object"}
    return {**result, "description": description} if description else result


def needs(schema: Schema, *required: str) -> Schema:
    return {**schema, "required": list(required)}


def closed(schema: Schema) -> Schema:
    """It holds nothing else: what is sent and not known is refused."""
    return {**schema, "additionalProperties": False}


def always(schema: Schema, *optional: str) -> Schema:
    """Every field is there, but for these."""
    return needs(schema, *(name for name in schema["properties"] if name not in optional))


def maybe(schema: Schema) -> Schema:
    return {**schema, "nullable": True}


NUMBER: Schema = {"type": "integer", "format": "int64"}
FLAG: Schema = {"type": "boolean"}
AMOUNT: Schema = {"type": "number", "format": "double"}
_MANY: Schema = {**NUMBER, "minimum": 1, "maximum": rate_limits.MOST}
WORDS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
OPEN: Schema = {"type": "object", "additionalProperties": True}
WHO_AND_WHEN = always(shape("", actor=text(), time=text()))
VERSION: Schema = {
    "description": "A number or a name.",
    "anyOf": [rules.VERSION, {"type": "integer", "minimum": 1, "maximum": rules.LARGEST_VERSION}],
}

COMMON = {
    "namespace": text(), "labels": WORDS, "annotations": WORDS, "createdAt": maybe(text("When, in UTC.")),
    "deleting": {**FLAG, "description": "It is marked, and goes when all that hangs on it has gone."},
}  # fmt: skip
SAID: dict[str, Schema] = {
    "framework": text("What loads it. Absent: the model's, else what the files look like."),
    "entrypoint": text("`module:object` for framework `python`, else the file to load."),
    "python": text("The Python it runs with, such as `3.12`; absent: the plane's."),
    "image": text("A container image that serves it."),
    "parentJob": text("The TrainingJob that made it."),
    "labels": rules.LABELS,
    "annotations": rules.ANNOTATIONS,
    "requirements": many(text("As for pip. Absent: what a requirements.txt among the files says.")),
    "training": {**FLAG, "description": "It is code to be trained, and holds nothing to load yet."},
}
assert set(SAID) == set(OPTIONS)


def fields_of(spec: type[Spec], **more: Schema) -> Schema:
    """Those of a spec, of which the path says what has to be said."""
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
    "previous": maybe(text("The version that was current before.")),
    "aliases": {**WORDS, "description": "Version by alias, as the spec has them."},
    "aliasOf": maybe(text("Of a second name: what it stands for.")),
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
    "People write name, namespace, labels and annotations; the rest is the server's.",
    name=text("One of its kind in a namespace; it never changes."),
    namespace=text("Where it is; `default` if absent."),
    uid=text("Its own, whatever it is called: a name may be used again by another object."),
    resourceVersion=text("Moves with every write. Send it back, to write only what you read."),
    generation={**NUMBER, "description": "Counts changes of the spec."},
    creationTimestamp=text("When it was created, in UTC."),
    deletionTimestamp=text("When its deletion was asked for. It goes when all its finalizers have."),
    labels={**WORDS, "description": "Words to select objects by."},
    annotations={**WORDS, "description": "Notes of people and programs."},
    ownerReferences={
        **many(
            shape(
                "",
                apiVersion=text("Its group and version."), kind=text("Its kind."), name=text("Its name."),
                uid=text("Its uid."), controller={**FLAG, "description": "Whether it is the one that controls this."},
                blockOwnerDeletion={**FLAG, "description": "Whether it waits, when deleted, until this has gone."},
            )
        ),
        "description": "Objects that this one belongs to, and goes with.",
    },
    finalizers={**many(text()), "description": "What has to be done before a deleted object goes."},
    managedFields={
        **many(
            shape(
                "",
                manager=text("Who it is: a program, as it calls itself."),
                operation={"type": "string", "enum": ["Apply", "Update"], "description": "How it wrote them."},
                apiVersion=text("The version that the fields are of."), time=text("When it last did."),
                fieldsType=text("Always `FieldsV1`."), fieldsV1={**OPEN, "description": "The fields, as paths."},
                subresource=text("The part of the object that was written, such as `status`."),
            )
        ),
        "description": "Who owns which fields, for those who apply.",
    },
)  # fmt: skip
LIST_META = shape(
    "Where the list stands in time, and whether it goes on.",
    resourceVersion=text("Where a watch may begin."),
    **{"continue": text("Where the next page begins: send it as `continue`. Empty: this was the last.")},
)

SHAPES: dict[str, Schema] = {
    "Status": needs(shape(
        "Of an error: what it was, every fault with its field path, and what to do next.",
        kind=text(), apiVersion=text(), metadata=OPEN, status={"type": "string", "enum": ["Failure", "Success"]},
        reason=text("One word for programs."), message=text("For people."), code=NUMBER,
        details=shape(
            "",
            causes=many(shape("", field=text(), message=text(), reason=text("One word for programs, or none."))),
            hint=text("What to do next."), group=text("Of the object that was asked for."), kind=text("Its plural."),
            name=text("Its name."), uid=text("Of what was deleted."),
        ),
    ), "kind", "apiVersion", "metadata", "status"),
    "Patch": {"description": "What to change: RFC 7396.", "type": "object"},
    "JsonPatch": {**many(OPEN), "description": "Steps of RFC 6902, one after the other."},
    "Scale": shape(
        "How many replicas there are to be, and are.",
        apiVersion=text("`autoscaling/v1`"), kind=text("`Scale`"), metadata=ref("ObjectMeta"),
        spec=shape("What is wanted.", replicas={**NUMBER, "description": "How many replicas there are to be."}),
        status=shape(
            "What is there.",
            replicas={**NUMBER, "description": "How many replicas there are."},
            selector=text("Labels that the replicas have."),
        ),
    ),
    "ObjectMeta": OBJECT_META,
    "ListMeta": LIST_META,
    "WatchEvent": shape(
        "One line of a watch.",
        type={"type": "string", "enum": ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]}, object=OPEN,
    ),
    "Index": always(shape("", name=text(), inference=text("Where the inference API answers."), links=OPEN)),
    "Live": always(shape("", live=FLAG)),
    "Readiness": always(shape("", ready=FLAG)),
    "Version": always(shape(
        "Ours, and for clients of Kubernetes the one that this speaks as.",
        version=text("Of Mizzen."), gitVersion=text("Of Kubernetes, with ours after a plus."),
        **{name: text() for name in ("major", "minor", "gitCommit", "gitTreeState", "buildDate", "goVersion")},
        compiler=text(), platform=text(),
    )),
    "Usage": always(shape(
        "How it was in the last seconds; numbers of what waits and runs are as they are now.",
        time=text("When, in UTC."),
        seconds={**AMOUNT, "description": "How long rates and quantiles look back; 0 right after a start."},
        total=ref("TotalUsage"), models=many(ref("ModelUsage")), processes=many(ref("ProcessUsage")),
    )),
    "TotalUsage": always(shape(
        "Of all models that are told of, together.",
        requestsPerSecond=AMOUNT, errorsPerSecond=AMOUNT, p50=maybe(AMOUNT), p95=maybe(AMOUNT), p99=maybe(AMOUNT),
    )),
    "ModelUsage": always(shape(
        "Of a version that is served, or has been asked for in the last seconds. Calls count for the model that "
        "answers, under whatever name they come.",
        namespace=text(), name=text("The model."), version=text(),
        servers={**many(text()), "description": "The InferenceModels that serve it."},
        requestsPerSecond=AMOUNT, errorsPerSecond={**AMOUNT, "description": "Answers with a code of 500 or more."},
        codesPerSecond={"type": "object", "additionalProperties": AMOUNT, "description": "By HTTP code."},
        **{
            name: maybe({**AMOUNT, "description": f"Seconds that {share} % of requests took at most. Null: none came."})
            for name, share in (("p50", 50), ("p95", 95), ("p99", 99))
        },
        inFlight={**NUMBER, "description": "Requests that have begun and not ended."},
        waiting={**NUMBER, "description": "Calls that wait for a replica."},
        callsPerBatch=maybe(AMOUNT),
        shedPerSecond={**AMOUNT, "description": "Refused because too many waited."},
        expiredPerSecond={**AMOUNT, "description": "Whose deadline passed."},
        retriedPerSecond={**AMOUNT, "description": "Sent again after their process was lost."},
        replicasReady=NUMBER, replicasWanted=NUMBER,
        memoryBytes={**NUMBER, "description": "Resident memory of all replicas."},
        cpu={**AMOUNT, "description": "Cores that all replicas were busy with."},
        accuracy=maybe({**AMOUNT, "description": "How right it is, by feedback with the truth. Null: there was none."}),
        reward=maybe({**AMOUNT, "description": "The mean of its rewards. Null: there was no feedback."}),
    )),
    "ProcessUsage": always(shape(
        "A process of the plane itself.",
        name=text("`plane`, `supervisor`, `gateway-0`, …"), memoryBytes=NUMBER, cpu=AMOUNT, restarts=NUMBER,
    )),
    "UsageHistory": always(shape(
        "Points, oldest first.",
        seconds={**NUMBER, "description": "Between two points."},
        columns={**many(text()), "description": "What the numbers of a point are; times in seconds since 1970."},
        series=many(always(shape(
            "Of one version of a model.",
            namespace=text(), name=text(), version=text(), points=many(many(maybe(AMOUNT))),
        ))),
    )),
    "GraphView": always(shape(
        "Rates are of the last seconds; shares, disagreement and shadowing since gateways began.",
        name=text(), namespace=text(), generation={**NUMBER, "description": "Of the spec that is shown."},
        wanted={**NUMBER, "description": "Of the spec that is asked for."},
        serving=maybe({**NUMBER, "description": "Of the spec that answers. Null: none does."}),
        ready=FLAG, message=text("Why it is ready, or is not."), url=maybe(text("Where it is called.")),
        seconds={**AMOUNT, "description": "How long rates look back; 0 right after a start."},
        nodes={**many(ref("GraphNodeView")), "description": "Each after all that it depends on."},
        edges=many(always(shape(
            "", **{"from": text(), "to": text()}, shadow={**FLAG, "description": "It gets copies only."},
            traffic=maybe({**NUMBER, "description": "Per cent, of a split that says so."}), perSecond=AMOUNT,
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
        route=maybe(text("`split`, `call`, `cascade` or the policy of a bandit. Null: all children are taken.")),
        shadow=FLAG, messagesPerSecond=AMOUNT, errorsPerSecond={**AMOUNT, "description": "Calls that failed."},
        meanMs=maybe({**AMOUNT, "description": "Of its calls. Null: there were none."}),
        selection=maybe(always(shape(
            "Null: it has chosen nothing.",
            shares={"type": "object", "additionalProperties": AMOUNT, "description": "By child."},
            entropy=maybe({**AMOUNT, "description": "Of the shares: 1 when all are alike, 0 when one has all."}),
        ))),
        disagreement={**many(always(shape(
            "", one=text(), other=text(), count=NUMBER,
            mean={**AMOUNT, "description": "How far they differed, from 0 to 1."},
        ))), "description": "Of members of an ensemble, on the same requests."},
        shadowing=maybe(always(shape(
            "Of a shadow: its answers, compared with those that were given.",
            agreed=NUMBER, differed=NUMBER, agreement={**AMOUNT, "description": "The share that agreed."},
        ))),
    )),
    "GraphState": always(shape(
        "",
        name=text(), namespace=text(), user=text("Who was asked for; empty: nobody."),
        feedback={**NUMBER, "description": "That came, as far back as that is kept."},
        nodes={**many(ref("BanditState")), "description": "Those with a bandit."},
        quality=many(always(shape(
            "Of one version at one node.",
            node=text(), version=text(), rewards=NUMBER, rewardMean=maybe(AMOUNT), truths=NUMBER,
            accuracy=maybe({**AMOUNT, "description": "How right it is, by feedback with the truth."}),
        ))),
    )),
    "BanditState": always(shape(
        "",
        node=text(), policy=text(), parameters={**OPEN, "description": "Of the policy."}, perUser=FLAG,
        own={**FLAG, "description": "The arms are those of the user who was asked for, and not of all."},
        users={**NUMBER, "description": "Who have a state of their own."}, feedback=NUMBER,
        arms=many(always(shape(
            "", arm=text(), count={**NUMBER, "description": "Feedback."}, mean=maybe(AMOUNT),
            interval={**many(AMOUNT), "description": "Where the mean lies with 95 % confidence: from, to."},
            weight={**AMOUNT, "description": "Of exp3; all start at 1."}, best=FLAG,
        ))),
    )),
    "Deleted": needs(
        shape("It is gone.", name=text(), id=text(), namespace=text(), deleted=FLAG, bindings=many(OPEN)), "deleted"
    ),
    "Loaded": shape("It is so.", name=text(), servers={**many(text()), "description": "Those that it is about."}),
    "NewModel": closed(needs(shape(
        "",
        name=rules.NAME, framework=maybe(rules.FRAMEWORK), labels=maybe(rules.LABELS),
        annotations=maybe(rules.ANNOTATIONS),
    ), "name")),
    "ModelView": needs(
        shape("A model, as the /model paths show it; to who may see an alias only, just that.", **_MODEL),
        "name", "namespace", "aliases",
    ),
    "ModelDescription": always(shape(
        "A model with all that belongs to it, as they were at one moment.",
        **_MODEL, versions=many(ref("VersionView")), versionCount=NUMBER, servers=many(ref("ServerView")),
        jobs=many(ref("JobView")), jobCount=NUMBER, checkpoints={**NUMBER, "description": "Of all its versions."},
        monitor=maybe(OPEN), rollouts=many(text()), secondNames=many(text()),
        lastChanged=maybe(WHO_AND_WHEN),
    )),
    "WhichVersion": closed(needs(shape("", version=VERSION), "version")),
    "WhichVersionOrPrevious": closed(shape("Absent: the one that was current before.", version=VERSION)),
    "NewVersion": closed(shape(
        "One source (`path`, `git`, `downloadURL`, `files`, `archive`) or an `image`, and what is to be said about it.",
        path=text("A file or folder on the plane's machine; for admins of the plane."),
        git=closed(needs(
            shape("", repo=text(), ref=text("A branch, tag or commit; HEAD if absent."), path=text()), "repo"
        )),
        downloadURL=text("http(s) address of a file or archive."), sha256sum=text("Of what is downloaded."),
        insecureSkipVerify={**FLAG, "description": "Take whatever is downloaded."},
        files={**many(FILE), "minItems": 1}, archive=rules.DIGEST, **SAID,
    )),
    "VersionForm": closed(needs(
        shape(
            "An archive or file, and what is to be said about it, as texts.",
            code={"type": "string", "format": "binary", "description": "The archive or file."},
            **{name: text(field.get("description", "")) for name, field in SAID.items()},
        ),
        "code",
    )),
    "CurrentVersion": always(shape("", name=text(), namespace=text(), version=text(), actor=text(), time=text())),
    "VersionView": always(shape("A version, as the /model paths show it.", **_VERSION), *SHOWN),
    "VersionDescription": always(shape(
        "A version, and what changed since the one before.",
        **_VERSION, changed=always(shape("", code=FLAG, data=FLAG)),
        jobs={**many(text()), "description": "Job sets that train it, or did."}, checkpoints=NUMBER,
        newestCheckpoint=maybe(text("What is served unless another one is asked for.")),
    ), *SHOWN),
    "Files": closed(needs(shape("", files={**many(FILE), "minItems": 1}), "files")),
    "Missing": always(shape("", missing=many(text("A digest that has to be sent.")))),
    "Piece": always(shape(
        "", digest=text(), offset={**NUMBER, "description": "Bytes that have come."}, complete=FLAG
    )),
    "NewServer": closed(fields_of(
        InferenceModelSpec, checkpoint_id=text("The checkpoint to serve. Absent: the newest of the version, if any.")
    )),
    "ServerView": always(shape(
        "One server of a version.",
        id=text("The InferenceModel object."), **COMMON, model=text(), version=maybe(text()),
        checkpoint_id=maybe(text("The checkpoint that it serves. Null: the version's own files.")),
        parent_job=maybe(text("The job set that saved it.")), url=text(), ready=FLAG, replicas=NUMBER,
        readyReplicas=NUMBER, status=ref("InferenceModelStatus"),
    )),
    "HistoryEntry": always(shape(
        "One change, or decision.",
        actor=text(), time=text(), action=text(), before=maybe(OPEN), after=maybe(OPEN), number=NUMBER,
        object=text("Which object: `Kind/name`."),
    )),
    "ModelThen": always(shape(
        "What a model looked like at a time.",
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
        open={**FLAG, "description": "Everybody on this machine may read and predict."},
    )),
    "NewUser": closed(needs(shape("", name=rules.USER), "name")),
    "User": always(shape("", **_USER)),
    "UserDescription": always(shape("", **_USER, bindings=many(ref("Binding")))),
    "LimitValues": closed(shape(
        "What is absent is not limited; something has to be there.",
        perSecond=maybe({**AMOUNT, "minimum": 0, "exclusiveMinimum": True, "maximum": rate_limits.MOST_PER_SECOND}),
        burst=maybe({**_MANY, "description": "So many at once; needs perSecond."}), perDay=maybe(_MANY),
        perMonth=maybe(_MANY),
    )),
    "Limit": always(shape(
        "How much somebody may predict.",
        subject=text("A user's name, `group:<name>`, `*` for each who has a token, or `anonymous`."),
        perSecond=maybe(AMOUNT), burst=maybe(NUMBER), perDay=maybe(NUMBER), perMonth=maybe(NUMBER),
        used={"type": "object", "additionalProperties": NUMBER,
              "description": "Of this `day` and this `month`, in UTC, where that is counted."},
        updated=text(), updatedBy=text(),
    )),
    "NewToken": closed(shape(
        "",
        expiresIn=maybe({**rules.DURATION, "description": "Such as `30d`. Absent: it does not expire."}),
        note=maybe({**text(), "maxLength": users.LONGEST_NOTE}),
    )),
    "CreatedToken": always(shape(
        "The one time that the token is shown.", id=text(), token=text(), user=text(), expires=maybe(text())
    )),
    "Token": always(shape("All about a token but the token.", **_TOKEN)),
    "SecretValues": closed(needs(shape("", data={**rules.SECRET, "description": "Values, by key."}), "data")),
    "Secret": always(shape(
        "All about a secret but its values.",
        name=text(), namespace=text(), keys=many(text()), updated=text(), updatedBy=text(),
    )),
    "AuditEntry": always(shape(
        "Who asked what, and whether they were allowed to.",
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
    "description": "A page of history; with `at`, the model as it was then.",
    "anyOf": [ref("HistoryEntryList"), ref("ModelThen")],
}
