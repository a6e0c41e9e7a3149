"""The rules of texts in the OpenAPI document say what the server does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from mizzen.blobs.ingest.intake import path_fault
from mizzen.errors import BadRequest
from mizzen.kinds.schema.metadata import label_faults
from mizzen.kinds.schema.resource import name_fault
from mizzen.kinds.text import durations, selectors
from mizzen.kinds.text.versions import check_alias, normal_version
from mizzen.server.auth import tokens
from tools.derived import openapi, rules
from tools.derived.links import LINKS

WORDS = (
    "", "0", "1", "v1", "v0", "007", "a", "iris", "Iris", "a.b", "a..b", "a-", "-a", "a b", "a\n", "é", "x" * 63,
    "x" * 64, "9" * 18, "9" * 19, "auto", "latest", "current", "admin", "ann@lab", "ann@", "a/b", "a//b", "/a", "a/",
    "..", "a/../b", "...", "c:x", "a\\b", "a\x7f", "30s", "1h30m", "5", "1.5d", ".5d", "a=b", "a==b,c!=d", "!a",
    "a in (b, c)", "a,", ",a", "a in b", " a = b ", "a=b c", "!", "k8s.io/a notin ()",
)  # fmt: skip


def _read(function: Callable[[str], object]) -> Callable[[str], bool]:
    def taken(text: str) -> bool:
        try:
            function(text)
        except (ValueError, BadRequest):
            return False
        return True

    return taken


@pytest.mark.parametrize(
    ("rule", "takes"),
    [
        (rules.NAME, lambda text: name_fault(text) is None),
        (rules.VERSION, _read(normal_version)),
        (rules.ALIAS, _read(check_alias)),
        (rules.USER, lambda text: tokens.name_fault(text) is None),
        (rules.FILE_PATH, lambda text: bool(text) and path_fault(text) is None),
        (rules.DURATION, _read(durations.seconds)),
        (rules.SELECTOR, _read(selectors.parse)),
        (rules.LABELS["additionalProperties"], lambda text: not label_faults({"a": text}, "")),
        (rules.LABELS["x-propertyNames"], lambda text: not label_faults({text: ""}, "")),
    ],
    ids=["name", "version", "alias", "user", "path", "duration", "selector", "label", "key"],
)
def test_a_rule_takes_what_the_server_takes(rule: dict[str, Any], takes: Callable[[str], bool]) -> None:
    assert [text for text in WORDS if _fits(rule, text) != takes(text)] == []


def test_links_lead_to_operations_and_fill_their_paths() -> None:
    told = {operation.id: operation for operation, _ in openapi.written_out()}
    for source, links in LINKS.items():
        assert source in told
        for link in links.values():
            wanted = set(re.findall(r"{(\w+)}", told[link["operationId"]].path))
            assert wanted <= link["parameters"].keys() <= wanted | {*told[link["operationId"]].query}


def _fits(rule: dict[str, Any], text: str) -> bool:
    """As JSON schema has it: `$` is the very end there."""
    refused = "not" in rule and _matches(rule["not"]["pattern"], text)
    return _matches(rule["pattern"], text) and not refused and len(text) <= rule.get("maxLength", len(text))


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern.removesuffix("$") + r"\Z", text) is not None
