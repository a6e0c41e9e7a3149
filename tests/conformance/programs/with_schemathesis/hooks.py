"""What schemathesis is told beside the document.

In OpenAPI 3.0 no word says what keys may look like. Ours says it as `x-propertyNames`, by the word of later releases;
schemathesis reads 3.0 as the JSON schema of its time, in which the same can be said with `patternProperties`.

A token to continue with cannot be made up, so none is the only good one here: all others must be refused.

And a plane fetches what it is told to, so no address that was made up may reach one: wherever it can stand, an address
that is refused stands instead.
"""

from __future__ import annotations

from typing import Any

import schemathesis

ADDRESSES = ("downloadURL", "repo")
NOWHERE = "gopher://127.0.0.1:9/"
"""By a scheme that nothing is fetched by."""


def before_load_schema(context: object, raw_schema: dict[str, Any]) -> None:
    _say_more(raw_schema)


def _say_more(node: Any) -> None:
    if isinstance(node, dict):
        if (node.get("name"), node.get("in")) == ("continue", "query"):
            node["schema"] = {"type": "string", "enum": [""]}
        if "x-propertyNames" in node:
            pattern = node.pop("x-propertyNames")["pattern"]
            node |= {"patternProperties": {pattern: node["additionalProperties"]}, "additionalProperties": False}
        for inner in node.values():
            _say_more(inner)
    elif isinstance(node, list):
        for inner in node:
            _say_more(inner)


def before_call(context: object, case: Any, kwargs: dict[str, Any]) -> None:
    _keep_here(case.body)


def _keep_here(body: Any) -> None:
    if isinstance(body, dict):
        for name, inner in body.items():
            if name in ADDRESSES and isinstance(inner, str):
                body[name] = NOWHERE
            _keep_here(inner)
    elif isinstance(body, list):
        for inner in body:
            _keep_here(inner)


schemathesis.hook(before_load_schema)
schemathesis.hook(before_call)
