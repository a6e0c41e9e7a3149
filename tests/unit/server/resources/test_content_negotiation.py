"""Which form an Accept header asks for: the best of those that there are."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from mizzen.server.resources import content_negotiation

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OLD_TABLE = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
KUBECTL = f"{TABLE},{OLD_TABLE},application/json"


@pytest.mark.parametrize(
    ("header", "table"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
        ("application/yaml", False),
        (TABLE, True),
        (KUBECTL, True),
        (f"application/json,{TABLE}", False),  # of equals the first
        (f"application/json;q=0.9,{TABLE}", True),
        (f"{TABLE};q=0.5,application/json;q=0.6", False),
        (f"{TABLE};q=0,application/json;q=0.1", False),
        (f"{TABLE};q=0", False),
        (f"{OLD_TABLE},application/json", False),
        (f"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,{TABLE};q=0.1", True),
        (f"{OLD_TABLE},{TABLE};q=0.1", True),
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", False),
        ("application/json;as=Table", False),  # of which version?
        ('Application/JSON; As=Table; V="v1"; g=meta.k8s.io; charset=utf-8', True),
        (f"{TABLE};q=2,application/json", True),  # no quality: as if it were not there
        (f"{TABLE};q=much", True),
        (f"{TABLE};q=nan,application/json;q=0.5", True),
        (",;,;q=1,=", False),
    ],
)
def test_the_best_that_there_is_is_chosen(header: str | None, table: bool) -> None:
    assert (content_negotiation.negotiate(Headers({} if header is None else {"accept": header})) == "Table") is table


@pytest.mark.parametrize("what", ["PartialObjectMetadata", "PartialObjectMetadataList"])
def test_metadata_alone_is_a_form(what: str) -> None:
    partial = f"application/json;as={what};v=v1;g=meta.k8s.io"
    assert content_negotiation.negotiate(Headers({"accept": f"{partial},application/json"})) == "Metadata"
    assert content_negotiation.negotiate(Headers({"accept": f"application/json;as={what},application/json"})) is None


def test_a_header_may_come_in_several_lines() -> None:
    lines = [(b"accept", b"application/json;q=0.5"), (b"accept", TABLE.encode())]
    assert content_negotiation.negotiate(Headers(raw=lines)) == "Table"
