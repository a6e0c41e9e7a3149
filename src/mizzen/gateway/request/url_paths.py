"""All paths of the inference API: the table for lookups, from which openapi.json is generated too."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

DEFAULT_NAMESPACE = "default"
NAMESPACE = "/ns/{namespace}"
"""The optional prefix of a path that names the namespace."""


@dataclass(frozen=True, slots=True)
class Path:
    pattern: str
    """`{model}`, `{version}` and `{label}` match one non-empty segment, or its part before a verb."""
    what: str
    """The operation; several paths may have the same one."""
    method: str = "GET"
    """GET includes HEAD."""
    anywhere: bool = True
    """It may follow the `NAMESPACE` prefix."""


PATHS: tuple[Path, ...] = (
    Path("/", "index", anywhere=False),
    Path("/healthz", "health", anywhere=False),
    Path("/metrics", "metrics", anywhere=False),
    Path("/metrics/triton", "triton", anywhere=False),
    Path("/openapi.json", "document", anywhere=False),
    Path("/v2", "server"),
    Path("/v2/health/live", "live"),
    Path("/v2/health/ready", "ready"),
    Path("/v2/models", "models"),
    Path("/v2/models/stats", "stats"),
    Path("/v2/models/{model}", "metadata"),
    Path("/v2/models/{model}/ready", "model_ready"),
    Path("/v2/models/{model}/config", "config"),
    Path("/v2/models/{model}/stats", "model_stats"),
    Path("/v2/models/{model}/infer", "infer", "POST"),
    Path("/v2/models/{model}/explain", "explain", "POST"),
    Path("/v2/models/{model}/feedback", "feedback", "POST"),
    Path("/v2/models/{model}/versions/{version}", "metadata"),
    Path("/v2/models/{model}/versions/{version}/ready", "model_ready"),
    Path("/v2/models/{model}/versions/{version}/config", "config"),
    Path("/v2/models/{model}/versions/{version}/stats", "model_stats"),
    Path("/v2/models/{model}/versions/{version}/infer", "infer", "POST"),
    Path("/v2/models/{model}/versions/{version}/explain", "explain", "POST"),
    Path("/v2/models/{model}/versions/{version}/feedback", "feedback", "POST"),
    Path("/v2/repository/index", "repository", "POST"),
    Path("/v2/repository/models/{model}/load", "load", "POST"),
    Path("/v2/repository/models/{model}/unload", "unload", "POST"),
    Path("/v1/models", "v1_models"),
    Path("/v1/models/{model}:predict", "predict", "POST"),
    Path("/v1/models/{model}/versions/{version}:predict", "predict", "POST"),
    Path("/v1/models/{model}/labels/{label}:predict", "predict", "POST"),
    Path("/v1/models/{model}", "v1_status"),
    Path("/v1/models/{model}/versions/{version}", "v1_status"),
    Path("/v1/models/{model}/labels/{label}", "v1_status"),
    Path("/v1/models/{model}/metadata", "v1_metadata"),
    Path("/v1/models/{model}/versions/{version}/metadata", "v1_metadata"),
    Path("/v1/models/{model}/labels/{label}/metadata", "v1_metadata"),
)
"""If a URL matches two patterns, the first one applies."""


@dataclass(frozen=True, slots=True)
class RequestPath:
    """A URL, parsed."""

    path: Path
    namespace: str
    model: str = ""
    version: str | None = None
    """Or an alias."""
    label: bool = False
    """`version` can only be an alias."""

    @property
    def what(self) -> str:
        return self.path.what


def find(raw_path: bytes) -> RequestPath | None:
    """Look up a path. Segments are unescaped one by one, so a name may contain a slash."""
    segments = [unquote_to_bytes(segment).decode(errors="replace") for segment in raw_path[1:].split(b"/")]
    within = ""
    if segments[0] == "ns" and len(segments) > 2 and segments[1]:
        within, segments = segments[1], segments[2:]
    for path, wanted in _BY_LENGTH.get(len(segments), ()):
        if within and not path.anywhere:
            continue
        names = _match_segments(wanted, segments)
        if names is not None:
            version, label = names.get("{version}"), names.get("{label}")
            space = within or DEFAULT_NAMESPACE
            return RequestPath(path, space, names.get("{model}", ""), version or label, label is not None)
    return None


def _match_segments(wanted: list[str], segments: list[str]) -> dict[str, str] | None:
    """The value of each name in braces; None if the segments do not match."""
    names: dict[str, str] = {}
    for word, given in zip(wanted, segments, strict=True):
        name, brace, verb = word.partition("}")
        if brace and given.endswith(verb) and len(given) > len(verb):
            names[name + brace] = given.removesuffix(verb)
        elif word != given:
            return None
    return names


_BY_LENGTH: dict[int, list[tuple[Path, list[str]]]] = {}
for _path in PATHS:
    _segments = _path.pattern[1:].split("/")
    _BY_LENGTH.setdefault(len(_segments), []).append((_path, _segments))
