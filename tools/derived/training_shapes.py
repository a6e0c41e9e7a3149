"""Shapes of the /model paths of job sets and checkpoints. Schemas by name."""

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
    "As the code reported it last.",
    step=maybe(NUMBER), total=maybe(NUMBER), metrics=_NUMBERS, message=text(), time=maybe(text("When, in UTC.")),
    fraction=maybe({**AMOUNT, "description": "From 0 to 1; while it goes on, and where it is described."}),
    eta_seconds=maybe({
        **AMOUNT, "description": "That are left at the pace so far; where it is described. Null: nobody can know.",
    }),
)  # fmt: skip
_JOB = {
    "id": text("The TrainingJob object."), **COMMON, "model": text(), "version": maybe(text("Null: it names none.")),
    "state": text("The condition that tells most."), "reason": text("Why it is so, in one word."),
    "message": text("Why, in a person's words."), "createdBy": text("Who wrote it last."),
    "startTime": maybe(text("When it first ran, in UTC.")), "completionTime": maybe(text("When it ended, in UTC.")),
    "progress": maybe(_PROGRESS), "checkpoints": {**NUMBER, "description": "How many it saved and are kept."},
    "newestCheckpoint": maybe(text("The id of the last of them.")), "status": ref("TrainingJobStatus"),
}  # fmt: skip

SHAPES: dict[str, Schema] = {
    "NewJob": closed(fields_of(TrainingJobSpec, modelName=maybe(text("As the path says, if at all.")))),
    "JobView": always(shape("One job set: all its replicas, under one id.", **_JOB)),
    "JobDescription": always(shape(
        "A job set, and what it does just now.",
        **_JOB, spec=ref("TrainingJobSpec"),
        replicas={**OPEN, "description": "Active, succeeded and failed ones, by type."}, replicaStates=many(OPEN),
        metrics={**_NUMBERS, "description": "Their last values."},
        lastLines=maybe(text("That it printed before a bad end; null for those who may not read its log.")),
        servers={
            **many(always(shape("", id=text("The server."), checkpoint_id=text()))),
            "description": "Who serves what it saved.",
        },
    )),
    "Checkpoint": always(shape(
        "What a job set saved at one time.",
        checkpoint_id=text(), uri=text("Where its file is; of several, its manifest."),
        name=text("What the code called it."), job=text(), model=text(), version=maybe(text()), step=maybe(NUMBER),
        metrics=_NUMBERS, sha256=text("Of its file; of several, over their paths and digests."), size=NUMBER,
        created=maybe(text("When its save was complete, in UTC.")),
        trusted={**FLAG, "description": "May be unpickled: who started the job may vouch for code, or another did."},
        framework=maybe(text()), entrypoint=maybe(text()),
        files=many(always(shape("", path=text(), digest=text(), size=NUMBER, uri=text()))),
        served_by={**many(text()), "description": "Servers. What is served is not deleted."},
    )),
    "DeletedCheckpoint": always(shape("It is gone.", checkpoint_id=text(), deleted=FLAG)),
}  # fmt: skip
SHAPES |= {f"{name}List": listed(name) for name in ("JobView", "Checkpoint")}
