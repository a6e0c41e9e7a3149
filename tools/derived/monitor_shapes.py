"""Schemas of the /model paths for monitors, by name."""

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
    "description": "Step, value, and time in seconds since 1970. NaN and infinity become null.",
}  # fmt: skip

SHAPES: dict[str, Schema] = {
    "NewMonitor": closed(fields_of(MonitorSpec, modelName=maybe(text("Optional; must match the path.")))),
    "MonitorView": always(shape(
        "The monitoring tool of a model.",
        name=text("The Monitor object."), **COMMON, status=ref("MonitorStatus"),
        tool=maybe(text("The tool in use; null: not known yet.")), url=text("URL for browsers."),
        ready={**FLAG, "description": "The tool answers at that URL."}, message=text("Readable state."),
    )),
    "EndedMonitor": always(shape(
        "", name=text("The model."), deleted={**FLAG, "description": "False: its process is still ending."},
    )),
    "MonitorTicket": always(shape(
        "", url=text("Opens the monitor in a browser, once."),
        expiresInSeconds={**NUMBER, "description": "How long the URL is valid."},
    )),
    "Scalars": always(shape(
        "Scalars that jobs logged, by step, and live figures of served versions.",
        tags={**many(text()), "description": "All tags, whatever the query selects."},
        series=many(always(shape(
            "", version=text("The version, or `unversioned`."), job=text(),
            replica=text("Empty: the job has only one replica."),
            tag=text(), source=text("`events`, `metrics.jsonl`, `metrics.csv` or `progress`."), points=many(_POINT),
        ))),
        leftOut={**NUMBER, "description": "Number of omitted series; narrow the query by tag, version or job."},
        behind={**FLAG, "description": "More files are still being read: repeat the request."},
        words={**many(text()), "description": "Problems with files that could not be read."},
        live=many(always(shape(
            "", version=text(), server=text("Its servers, separated by commas."),
            requests={**AMOUNT, "description": "Per second."},
            errorRate=maybe({**AMOUNT, "description": "Share of failed requests."}),
            p50=maybe({**AMOUNT, "description": "Seconds, as for p99."}), p99=maybe(AMOUNT),
            accuracy=maybe({**AMOUNT, "description": "From feedback, as is the reward."}), reward=maybe(AMOUNT),
        ))),
    )),
}  # fmt: skip
