"""Words on the command line that name objects: KIND NAME, KIND/NAME; and what the shell offers for them.

What the shell asks must be answered at once, and silently when there is no plane: so neither the catalog nor the HTTP
client is loaded here for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer

from mizzen import errors
from mizzen.kinds import called
from mizzen.kinds.called import Called

_PATIENCE: Final = 1.0
_MOST: Final = 200


def kind_and_name(kind: str, name: str | None) -> tuple[Called, str | None]:
    """Of `KIND`, `KIND NAME` or `KIND/NAME`. NotFound, with a suggestion, for an unknown kind."""
    word, slash, rest = kind.partition("/")
    if slash and name is not None:
        raise typer.BadParameter(f"write {word} {name} or {word}/{name}")
    if slash and not rest:
        raise typer.BadParameter(f"'{kind}' lacks the name")
    return called.find(word), rest if slash else name


def one_object(kind: str, name: str | None) -> tuple[Called, str]:
    """As `kind_and_name`, with the name required."""
    found, named = kind_and_name(kind, name)
    if named is None:
        raise typer.BadParameter(f"which {found.singular}? write {found.singular}/NAME")
    return found, named


def model_or_object(what: str) -> tuple[Called, str]:
    """`iris` is a model; `mlgraph/experiment` says its kind."""
    return one_object(what, None) if "/" in what else (called.BY_NAME["Model"], what)


def some_object(word: str, name: str | None) -> tuple[Called, str]:
    """As `one_object`; a word that is no kind is a model."""
    if name is None and "/" not in word and not _is_kind(word):
        return called.BY_NAME["Model"], word
    return one_object(word, name)


def offer_kinds(incomplete: str) -> list[str]:
    return [kind.singular for kind in called.ALL if kind.singular.startswith(incomplete.lower())]


def offer_objects(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the kind that stands before."""
    kind = str(context.params.get("kind") or "").partition("/")[0].lower()
    return _starting(names(kind, context.params), incomplete) if kind else []


def offer_kinds_and_objects(context: typer.Context, incomplete: str) -> list[str]:
    """`KIND/NAME`: kinds first, then names."""
    kind, slash, _ = incomplete.partition("/")
    if not slash:
        return offer_kinds(incomplete)
    return _starting((f"{kind}/{name}" for name in names(kind.lower(), context.params)), incomplete)


def offer_models(context: typer.Context, incomplete: str) -> list[str]:
    return _starting(names("model", context.params), incomplete)


def offer_models_and_objects(context: typer.Context, incomplete: str) -> list[str]:
    return [*offer_models(context, incomplete), *offer_kinds_and_objects(context, incomplete)]


def names(kind: str, given: Mapping[str, Any]) -> list[str]:
    """The names of a kind's objects; none when they cannot be had quickly."""
    from urllib.request import ProxyHandler, Request, build_opener

    plural = kind if kind.endswith("s") else f"{kind}s"
    namespace = given.get("namespace") or "default"
    path = f"/apis/mizzen.dev/v1alpha1/namespaces/{namespace}/{plural}?limit={_MOST}"
    try:
        url, token = _place(given.get("data_dir"))
        headers = {"authorization": f"Bearer {token}"} if token else {}
        request = Request(url + path, headers=headers)  # noqa: S310 - http or https, as `_place` says
        with build_opener(ProxyHandler({})).open(request, timeout=_PATIENCE) as answer:
            return [str(item["metadata"]["name"]) for item in json.load(answer)["items"]]
    except (OSError, ValueError, KeyError, TypeError, errors.MizzenError):
        return []


def pairs(given: list[str], option: str) -> dict[str, str]:
    """KEY=VALUE, each as one entry."""
    wrong = next((pair for pair in given if "=" not in pair.removeprefix("=")), None)
    if wrong is not None:
        raise typer.BadParameter(f"'{wrong}' is not KEY=VALUE", param_hint=f"'{option}'")
    return dict(pair.split("=", 1) for pair in given)


def _place(data_dir: Any) -> tuple[str, str | None]:
    """As `locate.find`, without waiting for a plane that is being brought back."""
    from mizzen.sdk import locate
    from mizzen.supervisor import launch
    from mizzen.supervisor.home import Home, UnusableHome

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


def _is_kind(word: str) -> bool:
    try:
        called.find(word)
    except errors.NotFound:
        return False
    return True


def _starting(found: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in found if name.startswith(incomplete)]


KindArgument = Annotated[
    str,
    typer.Argument(
        metavar="KIND[/NAME]",
        help="Model, ModelVersion, InferenceModel, MLGraph, …; models, im and model/iris will do.",
        autocompletion=offer_kinds_and_objects,
    ),
]
DescribedArgument = Annotated[
    str,
    typer.Argument(
        metavar="[KIND/]NAME|KIND",
        help="A model, or KIND/NAME, or KIND and then NAME.",
        autocompletion=offer_models_and_objects,
    ),
]
NameArgument = Annotated[str | None, typer.Argument(metavar="NAME", help="One object.", autocompletion=offer_objects)]
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="The model.", autocompletion=offer_models)]
ObjectArgument = Annotated[
    str, typer.Argument(metavar="[KIND/]NAME", help="A model, or KIND/NAME.", autocompletion=offer_models_and_objects)
]
VersionArgument = Annotated[str, typer.Argument(metavar="VERSION", help="The version: a number or a name.")]
Labels = Annotated[list[str] | None, typer.Option("--label", "-l", metavar="KEY=VALUE", help="A label; repeatable.")]
