"""Shapes of the /model paths of monitors. Schemas by name."""

from __future__ import annotations

from mizzen.kinds.monitor import MonitorSpec
from tools.derived.shapes import (
    AMOUNT,
    COMMON,
    FLAG,
    NUMBER,
    Schema,
    always,
    closed,
    fields_of,
    many,
    maybe,
    ref,
    shape,
    text,
)

_POINT: Schema = {
    "type": "array", "items": {**AMOUNT, "nullable": True}, "minItems": 3, "maxItems": 3,
    "description": "Step, value, and when in seconds since 1970. A value that is no number is null.",
}  # fmt: skip

SHAPES: dict[str, Schema] = {
    "NewMonitor": closed(fields_of(MonitorSpec, modelName=maybe(text("As the path says, if at all.")))),
    "MonitorView": always(shape(
        "The monitoring tool of a model.",
        name=text("The Monitor object."), **COMMON, status=ref("MonitorStatus"),
        tool=maybe(text("What is shown; null: not known yet.")), url=text("Where a browser finds it."),
        ready={**FLAG, "description": "It can be seen there."}, message=text("How it is, in a person's words."),
    )),
    "EndedMonitor": always(shape(
        "", name=text("The model."), deleted={**FLAG, "description": "False: its process is ending."},
    )),
    "MonitorTicket": always(shape(
        "", url=text("Opens the monitor in a browser, once."),
        expiresInSeconds={**NUMBER, "description": "After which the address is good for nothing."},
    )),
    "Scalars": always(shape(
        "What jobs logged, by step, and how served versions do.",
        tags={**many(text()), "description": "All there are, whatever was asked for."},
        series=many(always(shape(
            "", version=text("Or `unversioned`."), job=text(), replica=text("Empty: the job has one only."),
            tag=text(), source=text("`events`, `metrics.jsonl`, `metrics.csv` or `progress`."), points=many(_POINT),
        ))),
        leftOut={**NUMBER, "description": "Series beyond the most that are told; name a tag, version or job."},
        behind={**FLAG, "description": "There is more to read: ask again."},
        words={**many(text()), "description": "What is wrong with which files."},
        live=many(always(shape(
            "", version=text(), server=text("Its servers, with commas."),
            requests={**AMOUNT, "description": "Per second."},
            errorRate=maybe({**AMOUNT, "description": "The share that failed."}),
            p50=maybe({**AMOUNT, "description": "Seconds, as is the next."}), p99=maybe(AMOUNT),
            accuracy=maybe({**AMOUNT, "description": "By feedback, as is the next."}), reward=maybe(AMOUNT),
        ))),
    )),
}  # fmt: skip
