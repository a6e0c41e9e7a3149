"""Which paths there are: the one table that requests are looked up in, and that openapi.json is made from."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from mizzen.gateway.route_table import DEFAULT_NAMESPACE

NAMESPACE = "/ns/{namespace}"
"""Before a path: in which namespace it is meant."""


@dataclass(frozen=True, slots=True)
class Path:
    pattern: str
    """`{model}`, `{version}` and `{label}` stand for one segment, or what it has before a verb, that is not empty."""
    what: str
    """Which answer is meant: several paths may ask for the same."""
    method: str = "GET"
    """GET is HEAD, too."""
    anywhere: bool = True
    """It may stand behind `NAMESPACE`, too."""


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
"""Of two that a URL fits, the first is meant."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a URL asks for."""

    path: Path
    namespace: str
    model: str = ""
    version: str | None = None
    """Or an alias."""
    label: bool = False
    """`version` is an alias, and nothing else."""

    @property
    def what(self) -> str:
        return self.path.what


def find(raw_path: bytes) -> Found | None:
    """Segments are unescaped each by itself, so a name may hold a slash."""
    segments = [unquote_to_bytes(segment).decode(errors="replace") for segment in raw_path[1:].split(b"/")]
    within = ""
    if segments[0] == "ns" and len(segments) > 2 and segments[1]:
        within, segments = segments[1], segments[2:]
    for path, wanted in _BY_LENGTH.get(len(segments), ()):
        if within and not path.anywhere:
            continue
        names = _names(wanted, segments)
        if names is not None:
            version, label = names.get("{version}"), names.get("{label}")
            space = within or DEFAULT_NAMESPACE
            return Found(path, space, names.get("{model}", ""), version or label, label is not None)
    return None


def _names(wanted: list[str], segments: list[str]) -> dict[str, str] | None:
    """What stands for each name in braces; None when it is another path."""
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
