"""Schemas of the /model paths for job sets and checkpoints, by name."""

from __future__ import annotations

from mizzen.kinds.training import TrainingJobSpec
from tools.derived.shapes import (
    AMOUNT,
    COMMON,
    FLAG,
    NUMBER,
    OPEN,
    Schema,
    always,
    closed,
    fields_of,
    listed,
    many,
    maybe,
    ref,
    shape,
    text,
)

_NUMBERS: Schema = {"type": "object", "additionalProperties": AMOUNT}
_PROGRESS = shape(
    "The last report of the code.",
    step=maybe(NUMBER), total=maybe(NUMBER), metrics=_NUMBERS, message=text(), time=maybe(text("When, in UTC.")),
    fraction=maybe({**AMOUNT, "description": "From 0 to 1; while the job is ongoing, and in descriptions."}),
    eta_seconds=maybe({
        **AMOUNT, "description": "Estimated seconds left; in descriptions. Null: unknown.",
    }),
)  # fmt: skip
_JOB = {
    "id": text("The TrainingJob object."), **COMMON, "model": text(),
    "version": maybe(text("Null: the job has no version.")),
    "state": text("The most significant condition."), "reason": text("Machine-readable reason, in one word."),
    "message": text("Readable explanation."), "createdBy": text("The last user who wrote it."),
    "startTime": maybe(text("When it first ran, in UTC.")), "completionTime": maybe(text("When it ended, in UTC.")),
    "progress": maybe(_PROGRESS), "checkpoints": {**NUMBER, "description": "Number of its checkpoints that are kept."},
    "newestCheckpoint": maybe(text("Id of the newest checkpoint.")), "status": ref("TrainingJobStatus"),
}  # fmt: skip

SHAPES: dict[str, Schema] = {
    "NewJob": closed(fields_of(TrainingJobSpec, modelName=maybe(text("Optional; must match the path.")))),
    "JobView": always(shape("One job set: all its replicas under one id.", **_JOB)),
    "JobDescription": always(shape(
        "A job set with its live state.",
        **_JOB, spec=ref("TrainingJobSpec"),
        replicas={**OPEN, "description": "Active, succeeded and failed replicas, by type."}, replicaStates=many(OPEN),
        metrics={**_NUMBERS, "description": "Last value of each metric."},
        lastLines=maybe(text("Last lines before a failure; null for callers who may not read the log.")),
        servers={
            **many(always(shape("", id=text("The server."), checkpoint_id=text()))),
            "description": "Servers of its checkpoints.",
        },
    )),
    "Checkpoint": always(shape(
        "A checkpoint of a job set.",
        checkpoint_id=text(), uri=text("URI of its file; for several files, of its manifest."),
        name=text("The name that the code gave it."), job=text(), model=text(), version=maybe(text()),
        step=maybe(NUMBER),
        metrics=_NUMBERS, sha256=text("Of its file; for several files, of their paths and digests."), size=NUMBER,
        created=maybe(text("When it was completely saved, in UTC.")),
        trusted={**FLAG,
        "description": "May be unpickled: the user who started the job may trust code, or an admin trusted it."},
        framework=maybe(text()), entrypoint=maybe(text()),
        files=many(always(shape("", path=text(), digest=text(), size=NUMBER, uri=text()))),
        served_by={**many(text()), "description": "Servers that use it. A served checkpoint cannot be deleted."},
    )),
    "DeletedCheckpoint": always(shape("It is deleted.", checkpoint_id=text(), deleted=FLAG)),
}  # fmt: skip
SHAPES |= {f"{name}List": listed(name) for name in ("JobView", "Checkpoint")}
