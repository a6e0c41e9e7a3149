"""The setting and OpenTelemetry's variables say where spans go, and what is wrong with them is said, too."""

from __future__ import annotations

import pytest

from mizzen.telemetry.destination import read_destination

BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@pytest.mark.parametrize(
    ("endpoint", "environ", "url"),
    [
        ("", {}, None),
        ("http://a:4318", {}, "http://a:4318/v1/traces"),
        ("http://a:4318/", {}, "http://a:4318/v1/traces"),
        ("https://a/otlp/v1/traces", {}, "https://a/otlp/v1/traces"),
        ("", {BASE: "http://b:4318"}, "http://b:4318/v1/traces"),
        ("", {BASE: "http://b:4318", TRACES: "http://c:4318/mine"}, "http://c:4318/mine"),
        ("http://a:4318", {BASE: "http://b:4318", TRACES: "http://c"}, "http://a:4318/v1/traces"),
        ("http://a:4318", {"OTEL_SDK_DISABLED": "true"}, None),
        ("", {BASE: "http://b", "OTEL_TRACES_EXPORTER": "none"}, None),
        ("http://a:4318", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http://a:4318/v1/traces"),
    ],
)
def test_where_spans_go(endpoint: str, environ: dict[str, str], url: str | None) -> None:
    found = read_destination(endpoint, environ)
    assert (found.url if found else None) == url


def test_headers_and_names_come_from_the_environment() -> None:
    found = read_destination("http://a", {
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=se%20cret, x=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x=2",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,team=ml", "OTEL_SERVICE_NAME": "scores",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "2500", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": "ca.pem",
    })  # fmt: skip
    assert found is not None
    assert found.headers == {"api-key": "se cret", "x": "2"}
    assert found.resource == {"service.name": "scores", "team": "ml"}
    assert (found.timeout, found.gzip, found.certificate) == (2.5, True, "ca.pem")
    assert "se cret" not in repr(found)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({BASE: "b:4318"}, "not a valid collector address"),
        ({BASE: "http://b:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "only http/protobuf is supported"),
        ({BASE: "http://b", "OTEL_EXPORTER_OTLP_HEADERS": "secret"}, "OTEL_EXPORTER_OTLP_HEADERS: expected key=value"),
    ],
)
def test_what_is_wrong_is_said(environ: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        read_destination("", environ)
    assert "secret" not in str(raised.value)
