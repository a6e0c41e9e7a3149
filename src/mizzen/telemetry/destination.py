"""Where spans are sent: the setting `otel_endpoint`, and OpenTelemetry's standard environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

PATH = "/v1/traces"
PROTOCOL = "http/protobuf"


@dataclass(frozen=True, slots=True)
class Destination:
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """May hold secrets such as an API key, so they are not shown."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """Attributes of the process, sent with all spans."""
    timeout: float = 10.0
    """Seconds per request."""
    gzip: bool = False
    certificate: str = ""
    """File of a trusted CA; empty: the system's CAs."""


def read_destination(endpoint: str, environ: Mapping[str, str]) -> Destination | None:
    """Return the destination; None: spans are not sent. `endpoint` is the setting, which overrides the environment.

    Raises ValueError if the environment is invalid.
    """
    if (
        _read_env(environ, "OTEL_SDK_DISABLED").lower() == "true"
        or _read_env(environ, "OTEL_TRACES_EXPORTER") == "none"
    ):
        return None
    url = _traces_url(endpoint) or _read_env(environ, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    url = url or _traces_url(_read_env(environ, "OTEL_EXPORTER_OTLP_ENDPOINT"), whole=False)
    if not url:
        return None
    protocol = _traces_or_general(environ, "PROTOCOL") or PROTOCOL
    if protocol != PROTOCOL and not endpoint:
        raise ValueError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}, but only {PROTOCOL} is supported; "
            "set otel_endpoint to the collector's port for it, usually 4318"
        )
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not a valid collector address; expected one such as http://127.0.0.1:4318")
    resource = {"service.name": "mizzen"} | _parse_pairs(environ, "OTEL_RESOURCE_ATTRIBUTES")
    if named := _read_env(environ, "OTEL_SERVICE_NAME"):
        resource["service.name"] = named
    milliseconds = _traces_or_general(environ, "TIMEOUT")
    return Destination(
        url,
        headers=_parse_pairs(environ, "OTEL_EXPORTER_OTLP_HEADERS")
        | _parse_pairs(environ, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
        resource=resource,
        timeout=int(milliseconds) / 1000 if milliseconds.isdecimal() and int(milliseconds) else 10.0,
        gzip=_traces_or_general(environ, "COMPRESSION") == "gzip",
        certificate=_traces_or_general(environ, "CERTIFICATE"),
    )


def _traces_url(endpoint: str, *, whole: bool = True) -> str:
    """Return the URL for traces below a collector's. `whole`: it may already be that URL."""
    if not endpoint or (whole and endpoint.endswith(PATH)):
        return endpoint
    return endpoint.rstrip("/") + PATH


def _traces_or_general(environ: Mapping[str, str], name: str) -> str:
    """Return the variable for traces, or else the one for all signals."""
    return _read_env(environ, f"OTEL_EXPORTER_OTLP_TRACES_{name}") or _read_env(environ, f"OTEL_EXPORTER_OTLP_{name}")


def _read_env(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _parse_pairs(environ: Mapping[str, str], name: str) -> dict[str, str]:
    """Parse `key=value,key=value`, percent-encoded. Raises ValueError."""
    pairs = {}
    for entry in filter(None, _read_env(environ, name).split(",")):
        key, equals, value = entry.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{name}: expected key=value, separated by commas")
        pairs[unquote(key.strip())] = unquote(value.strip())
    return pairs
