"""Where spans go: the setting `otel_endpoint`, and the variables that OpenTelemetry's own programs read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

PATH = "/v1/traces"
SPOKEN = "http/protobuf"


@dataclass(frozen=True, slots=True)
class Destination:
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Such as the key of an account: told to nobody else."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """What all spans say of who made them."""
    timeout: float = 10.0
    """Seconds that one request may take."""
    packed: bool = False
    certificate: str = ""
    """The file of a CA that is trusted; empty: those of the system are."""


def destination(endpoint: str, environ: Mapping[str, str]) -> Destination | None:
    """`endpoint` is the setting, which comes before what the environment says. None: spans go nowhere.

    ValueError says what is wrong with the environment.
    """
    if _said(environ, "OTEL_SDK_DISABLED").lower() == "true" or _said(environ, "OTEL_TRACES_EXPORTER") == "none":
        return None
    url = _based(endpoint) or _said(environ, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    url = url or _based(_said(environ, "OTEL_EXPORTER_OTLP_ENDPOINT"), whole=False)
    if not url:
        return None
    protocol = _either(environ, "PROTOCOL") or SPOKEN
    if protocol != SPOKEN and not endpoint:
        raise ValueError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}, and only {SPOKEN} is spoken here; "
            "otel_endpoint may name the port of the collector for it, mostly 4318"
        )
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no address of a collector, such as http://127.0.0.1:4318")
    resource = {"service.name": "mizzen"} | _pairs(environ, "OTEL_RESOURCE_ATTRIBUTES")
    if named := _said(environ, "OTEL_SERVICE_NAME"):
        resource["service.name"] = named
    milliseconds = _either(environ, "TIMEOUT")
    return Destination(
        url,
        headers=_pairs(environ, "OTEL_EXPORTER_OTLP_HEADERS") | _pairs(environ, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
        resource=resource,
        timeout=int(milliseconds) / 1000 if milliseconds.isdecimal() and int(milliseconds) else 10.0,
        packed=_either(environ, "COMPRESSION") == "gzip",
        certificate=_either(environ, "CERTIFICATE"),
    )


def _based(endpoint: str, *, whole: bool = True) -> str:
    """The address for traces below that of a collector. `whole`: it may be that already."""
    if not endpoint or (whole and endpoint.endswith(PATH)):
        return endpoint
    return endpoint.rstrip("/") + PATH


def _either(environ: Mapping[str, str], name: str) -> str:
    """What holds for traces, or else for all that is sent."""
    return _said(environ, f"OTEL_EXPORTER_OTLP_TRACES_{name}") or _said(environ, f"OTEL_EXPORTER_OTLP_{name}")


def _said(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _pairs(environ: Mapping[str, str], name: str) -> dict[str, str]:
    """`key=value,key=value`, escaped as in URLs."""
    pairs = {}
    for entry in filter(None, _said(environ, name).split(",")):
        key, equals, value = entry.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{name}: expected key=value, separated by commas")
        pairs[unquote(key.strip())] = unquote(value.strip())
    return pairs
