"""What schemathesis is told of the inference API beside its document: who is served, and what they take.

A name that was made up is nobody's, so names are those in `served.json`, beside which it runs. What a model takes is
told by its metadata, not by the document: of the bodies that fit the document, every second one is replaced by one that
fits its model too, so that answers are seen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import schemathesis

SERVED: dict[str, Any] = json.loads(Path("served.json").read_text())
CHANGES = ("/load", "/unload")


def before_load_schema(context: object, raw_schema: dict[str, Any]) -> None:
    for path, methods in raw_schema["paths"].items():
        names = SERVED["names"] | ({"model": SERVED["changed"]} if path.endswith(CHANGES) else {})
        if "{model}" not in path:  # nothing is in a namespace that nobody has, and that may be asked
            names.pop("namespace", None)
        for operation in methods.values():
            operation["parameters"] = [_named(given, names) for given in operation["parameters"]]


def _named(given: dict[str, Any], names: dict[str, list[str]]) -> dict[str, Any]:
    place, _, name = given["$ref"].rpartition("/")[2].partition(".")
    if place != "path" or name not in names:
        return given
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "enum": names[name]}}


def before_call(context: object, case: Any, kwargs: dict[str, Any]) -> None:
    if case.path.endswith("/feedback") and isinstance(case.body, dict) and case.meta is not None:
        if case.meta.generation.mode.is_positive:
            case.body.pop("routing", None)  # which ways there are, only the graph says
        return
    kind = "infer" if case.path.endswith("/infer") else "predict" if case.path.endswith(":predict") else ""
    if not kind or case.meta is None or not case.meta.generation.mode.is_positive or case.method != "POST":
        return
    if "Mizzen-Timeout-Ms" in (case.headers or {}):
        case.headers["Mizzen-Timeout-Ms"] = "30000"  # with less, 504 is the right answer
    bodies = SERVED[kind].get((case.path_parameters or {}).get("model"))
    if case.media_type == "application/json" and bodies and len(str(case.body)) % 2:
        case.body = bodies[len(str(case.body)) // 2 % len(bodies)]


schemathesis.hook(before_load_schema)
schemathesis.hook(before_call)
