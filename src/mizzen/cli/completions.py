"""Shell completions for arguments and options.

Completions must be fast, and silent when there is no plane. Therefore this module loads neither the HTTP client nor
the catalog; only the fields of a kind need the catalog.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import typer

from mizzen import errors
from mizzen.kinds.schema import names_and_columns

_TIMEOUT: Final = 1.0
_MAX_ITEMS: Final = 200
_RESOURCES: Final = "/apis/mizzen.dev/v1alpha1"
_PROCESSES: Final = ("plane", "gateway", "supervisor", "access")
_VERBS: Final = ("read", "predict", "write", "admin")


Completion = Callable[[typer.Context, str], list[str]]


def _names_of(*kinds: str, others: Sequence[str] = ()) -> Completion:
    """Return a completion with the names of all objects of these kinds, and other words."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        found = (name for kind in kinds for name in _object_names(kind, context))
        return _filter_prefix(dict.fromkeys((*found, *others)), incomplete)

    return complete


models = _names_of("model")
graphs = _names_of("mlgraph")
jobs = _names_of("trainingjob")
callable_names = _names_of("model", "inferencemodel", "mlgraph")
logging_names = _names_of("inferencemodel", "model", others=_PROCESSES)


def kinds(incomplete: str) -> list[str]:
    return _filter_prefix(
        (name for kind in names_and_columns.ALL for name in (kind.singular, kind.plural)), incomplete.lower()
    )


def objects(context: typer.Context, incomplete: str) -> list[str]:
    """Names of objects of the kind given before."""
    kind = str(context.params.get("kind") or "").partition("/")[0]
    return _filter_prefix(_object_names(kind, context), incomplete)


def kinds_and_objects(context: typer.Context, incomplete: str) -> list[str]:
    """`KIND/NAME`: kinds first, then names."""
    kind, slash, _ = incomplete.partition("/")
    if not slash:
        return kinds(incomplete)
    return _filter_prefix((f"{kind}/{name}" for name in _object_names(kind, context)), incomplete)


def models_and_objects(context: typer.Context, incomplete: str) -> list[str]:
    return [*models(context, incomplete), *kinds_and_objects(context, incomplete)]


def versions(context: typer.Context, incomplete: str) -> list[str]:
    """Versions of the model given before."""
    found = _request(f"/model/{_model_of(context)}/version", context).get("items") or ()
    return _filter_prefix((str(item["version"]) for item in found), incomplete)


def aliases(context: typer.Context, incomplete: str) -> list[str]:
    """Aliases of the model given before."""
    return _filter_prefix(_request(f"/model/{_model_of(context)}", context).get("aliases") or (), incomplete)


def users(context: typer.Context, incomplete: str) -> list[str]:
    return _filter_prefix(_item_values("/user", context, "name"), incomplete)


def tokens(context: typer.Context, incomplete: str) -> list[str]:
    """Token ids of the user given before."""
    return _filter_prefix(_item_values(f"/user/{context.params.get('name')}/token", context, "id"), incomplete)


def verbs_and_targets(context: typer.Context, incomplete: str) -> list[str]:
    """Verbs and models: a shell cannot know which verb is the last one."""
    return [*_filter_prefix(_VERBS, incomplete), *models(context, incomplete)]


def secrets(context: typer.Context, incomplete: str) -> list[str]:
    return _filter_prefix(_item_values("/secret", context, "name"), incomplete)


def namespaces(context: typer.Context, incomplete: str) -> list[str]:
    """Namespaces that have models, and `default`."""
    found = _request(f"{_RESOURCES}/models", context, limit=_MAX_ITEMS).get("items") or ()
    return _filter_prefix(sorted({"default", *(str(item["metadata"]["namespace"]) for item in found)}), incomplete)


def fields(incomplete: str) -> list[str]:
    """`KIND`, then `KIND.FIELD…`."""
    path, dot, _ = incomplete.rpartition(".")
    if not dot:
        return kinds(incomplete)
    from mizzen.kinds.schema import explain

    try:
        return _filter_prefix((f"{path}.{field['name']}" for field in explain.explain(path)["fields"]), incomplete)
    except errors.NotFound:
        return []


def _model_of(context: typer.Context) -> str:
    return next((str(context.params[key]) for key in ("model_name", "model", "name") if context.params.get(key)), "")


def _object_names(word: str, context: typer.Context) -> list[str]:
    """Names of the objects of a kind; empty if the plane does not answer quickly."""
    try:
        plural = names_and_columns.find(word).plural
    except errors.NotFound:
        return []
    path = f"{_RESOURCES}/namespaces/{context.params.get('namespace') or 'default'}/{plural}"
    return [str(item["metadata"]["name"]) for item in _request(path, context, limit=_MAX_ITEMS).get("items") or ()]


def _item_values(path: str, context: typer.Context, key: str) -> list[str]:
    return [str(item[key]) for item in _request(path, context).get("items") or ()]


def _request(path: str, context: typer.Context, **query: Any) -> Mapping[str, Any]:
    """The JSON response of the plane; empty if it does not answer quickly."""
    from urllib.parse import quote, urlencode
    from urllib.request import ProxyHandler, Request, build_opener

    if not path.startswith(_RESOURCES) and context.params.get("namespace"):
        query["namespace"] = context.params["namespace"]
    try:
        url, token = _locate(context.params.get("data_dir"))
        headers = {"authorization": f"Bearer {token}"} if token else {}
        request = Request(f"{url}{quote(path)}?{urlencode(query)}", headers=headers)  # noqa: S310 - `_locate` checks the scheme
        with build_opener(ProxyHandler({})).open(request, timeout=_TIMEOUT) as answer:
            found = json.load(answer)
    except (OSError, ValueError, errors.MizzenError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _locate(data_dir: Any) -> tuple[str, str | None]:
    """URL and token of the plane, like `locate.find`, without waiting for a plane that is restarting."""
    from mizzen.sdk.connection import locate
    from mizzen.supervisor import launch
    from mizzen.supervisor.data_dir import Home, UnusableHome

    if data_dir is not None or "MIZZEN_URL" not in os.environ:
        try:
            info = launch.alive(Home.of(locate.data_dir_of(data_dir)))
        except UnusableHome as error:
            raise ValueError(str(error)) from error
        if info is None:
            raise ValueError("no plane runs there")
    place = locate.find(data_dir=data_dir)
    return place.control_url, place.token


def _filter_prefix(found: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in found if name.startswith(incomplete)]
