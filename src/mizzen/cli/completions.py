"""What the shell offers for words on the command line.

What it asks must be answered at once, and silently when there is no plane: so neither the catalog nor the HTTP client
is loaded here for it; only the fields of a kind need the catalog.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

import typer

from mizzen import errors
from mizzen.kinds.schema import kind_names

_PATIENCE: Final = 1.0
_MOST: Final = 200
_RESOURCES: Final = "/apis/mizzen.dev/v1alpha1"
_PROCESSES: Final = ("plane", "gateway", "supervisor", "access")
_VERBS: Final = ("read", "predict", "write", "admin")


def kinds(incomplete: str) -> list[str]:
    return _starting((name for kind in kind_names.ALL for name in (kind.singular, kind.plural)), incomplete.lower())


def objects(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the kind that stands before."""
    kind = str(context.params.get("kind") or "").partition("/")[0]
    return _starting(_names(kind, context), incomplete)


def kinds_and_objects(context: typer.Context, incomplete: str) -> list[str]:
    """`KIND/NAME`: kinds first, then names."""
    kind, slash, _ = incomplete.partition("/")
    if not slash:
        return kinds(incomplete)
    return _starting((f"{kind}/{name}" for name in _names(kind, context)), incomplete)


def models(context: typer.Context, incomplete: str) -> list[str]:
    return _starting(_names("model", context), incomplete)


def models_and_objects(context: typer.Context, incomplete: str) -> list[str]:
    return [*models(context, incomplete), *kinds_and_objects(context, incomplete)]


def versions(context: typer.Context, incomplete: str) -> list[str]:
    """Of the model that stands before."""
    found = _asked(f"/model/{_model(context)}/version", context).get("items") or ()
    return _starting((str(item["version"]) for item in found), incomplete)


def aliases(context: typer.Context, incomplete: str) -> list[str]:
    """Of the model that stands before."""
    return _starting(_asked(f"/model/{_model(context)}", context).get("aliases") or (), incomplete)


def callable_names(context: typer.Context, incomplete: str) -> list[str]:
    found = (name for kind in ("model", "inferencemodel", "mlgraph") for name in _names(kind, context))
    return _starting(dict.fromkeys(found), incomplete)


def graphs(context: typer.Context, incomplete: str) -> list[str]:
    return _starting(_names("mlgraph", context), incomplete)


def jobs(context: typer.Context, incomplete: str) -> list[str]:
    return _starting(_names("trainingjob", context), incomplete)


def logging_names(context: typer.Context, incomplete: str) -> list[str]:
    found = (name for kind in ("inferencemodel", "model") for name in _names(kind, context))
    return _starting(dict.fromkeys((*found, *_PROCESSES)), incomplete)


def users(context: typer.Context, incomplete: str) -> list[str]:
    return _starting(_items("/user", context, "name"), incomplete)


def tokens(context: typer.Context, incomplete: str) -> list[str]:
    """Of the user that stands before."""
    return _starting(_items(f"/user/{context.params.get('name')}/token", context, "id"), incomplete)


def verbs_and_targets(context: typer.Context, incomplete: str) -> list[str]:
    """A shell cannot tell which of the verbs is the last one."""
    return [*_starting(_VERBS, incomplete), *models(context, incomplete)]


def secrets(context: typer.Context, incomplete: str) -> list[str]:
    return _starting(_items("/secret", context, "name"), incomplete)


def namespaces(context: typer.Context, incomplete: str) -> list[str]:
    """Those that have models."""
    found = _asked(f"{_RESOURCES}/models", context, limit=_MOST).get("items") or ()
    return _starting(sorted({"default", *(str(item["metadata"]["namespace"]) for item in found)}), incomplete)


def fields(incomplete: str) -> list[str]:
    """`KIND`, then `KIND.FIELD…`."""
    path, dot, _ = incomplete.rpartition(".")
    if not dot:
        return kinds(incomplete)
    from mizzen.kinds.schema import explain

    try:
        return _starting((f"{path}.{field['name']}" for field in explain.told(path)["fields"]), incomplete)
    except errors.NotFound:
        return []


def _model(context: typer.Context) -> str:
    return next((str(context.params[key]) for key in ("model_name", "model", "name") if context.params.get(key)), "")


def _names(word: str, context: typer.Context) -> list[str]:
    """The names of a kind's objects, by any name of the kind; none when they cannot be had quickly."""
    try:
        plural = kind_names.find(word).plural
    except errors.NotFound:
        return []
    path = f"{_RESOURCES}/namespaces/{context.params.get('namespace') or 'default'}/{plural}"
    return [str(item["metadata"]["name"]) for item in _asked(path, context, limit=_MOST).get("items") or ()]


def _items(path: str, context: typer.Context, key: str) -> list[str]:
    return [str(item[key]) for item in _asked(path, context).get("items") or ()]


def _asked(path: str, context: typer.Context, **query: Any) -> Mapping[str, Any]:
    """What the plane answers; nothing when that cannot be had quickly."""
    from urllib.parse import quote, urlencode
    from urllib.request import ProxyHandler, Request, build_opener

    if not path.startswith(_RESOURCES) and context.params.get("namespace"):
        query["namespace"] = context.params["namespace"]
    try:
        url, token = _place(context.params.get("data_dir"))
        headers = {"authorization": f"Bearer {token}"} if token else {}
        request = Request(f"{url}{quote(path)}?{urlencode(query)}", headers=headers)  # noqa: S310 - `_place` says which
        with build_opener(ProxyHandler({})).open(request, timeout=_PATIENCE) as answer:
            found = json.load(answer)
    except (OSError, ValueError, errors.MizzenError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _place(data_dir: Any) -> tuple[str, str | None]:
    """As `locate.find`, without waiting for a plane that is being brought back."""
    from mizzen.sdk.connection import locate
    from mizzen.supervisor import launch
    from mizzen.supervisor.data_dir import Home, UnusableHome

    url, token = os.environ.get("MIZZEN_URL"), os.environ.get("MIZZEN_TOKEN")
    if url is not None and data_dir is None:
        if not url.startswith(("http://", "https://")):
            raise ValueError("no address of a plane")
        return url.rstrip("/"), locate.cleaned(token)
    folder = locate.data_dir_of(data_dir)
    try:
        info = launch.alive(Home.of(folder))
    except UnusableHome as error:
        raise ValueError(str(error)) from error
    if info is None:
        raise ValueError("no plane runs there")
    place = locate.in_data_dir(folder, token)
    return place.control_url, place.token


def _starting(found: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in found if name.startswith(incomplete)]
