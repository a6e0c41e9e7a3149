"""Words on the command line that name objects: KIND NAME, KIND/NAME."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mizzen import errors
from mizzen.cli import completions
from mizzen.kinds.schema import kind_names
from mizzen.kinds.schema.kind_names import Called

if TYPE_CHECKING:
    from mizzen.sdk.packaging.requirements import Required


def kinds_and_names(kind: str, names: list[str]) -> list[tuple[Called, list[str]]]:
    """Of `KIND`, `KIND,KIND`, `KIND NAME…` or `KIND/NAME…`; no names: all of the kind. NotFound for an unknown kind."""
    if "/" not in kind:
        return [(kind_names.find(word), names) for word in kind.split(",")]
    found: dict[Called, list[str]] = {}
    for word in (kind, *names):
        if "/" not in word:
            before = kind.partition("/")[0]
            raise typer.BadParameter(f"write {before} {word} or {before}/{word}")
        one, named = one_object(word, None)
        found.setdefault(one, []).append(named)
    return list(found.items())


def one_object(kind: str, name: str | None) -> tuple[Called, str]:
    """Of `KIND NAME` or `KIND/NAME`. NotFound, with a suggestion, for an unknown kind."""
    word, slash, rest = kind.partition("/")
    if slash and name is not None:
        raise typer.BadParameter(f"write {word} {name} or {word}/{name}")
    if slash and not rest:
        raise typer.BadParameter(f"'{kind}' lacks the name")
    found, named = kind_names.find(word), rest if slash else name
    if named is None:
        raise typer.BadParameter(f"which {found.singular}? write {found.singular}/NAME")
    return found, named


def model_or_object(what: str) -> tuple[Called, str]:
    """`iris` is a model; `mlgraph/experiment` says its kind."""
    return one_object(what, None) if "/" in what else (kind_names.BY_NAME["Model"], what)


def some_object(word: str, name: str | None) -> tuple[Called, str]:
    """As `one_object`; a word that is no kind is a model."""
    if name is None and "/" not in word and not _is_kind(word):
        return kind_names.BY_NAME["Model"], word
    return one_object(word, name)


def pairs(given: list[str], option: str) -> dict[str, str]:
    """KEY=VALUE, each as one entry."""
    wrong = next((pair for pair in given if "=" not in pair.removeprefix("=")), None)
    if wrong is not None:
        raise typer.BadParameter(f"'{wrong}' is not KEY=VALUE", param_hint=f"'{option}'")
    return dict(pair.split("=", 1) for pair in given)


def required(file: Path | None, lines: list[str] | None, *, none: bool) -> Required | None:
    """What a version requires; None: nothing was said of it."""
    if sum((file is not None, bool(lines), none)) > 1:
        raise typer.BadParameter("give one of --requirements, --requirement and --no-requirements")
    return [] if none else lines or file


def _is_kind(word: str) -> bool:
    try:
        kind_names.find(word)
    except errors.NotFound:
        return False
    return True


KindArgument = Annotated[
    str,
    typer.Argument(
        metavar="KIND[/NAME]",
        help="Model, ModelVersion, InferenceModel, MLGraph, …; models, im, model,mv and model/iris will do.",
        autocompletion=completions.kinds_and_objects,
    ),
]
DescribedArgument = Annotated[
    str,
    typer.Argument(
        metavar="[KIND/]NAME|KIND",
        help="A model, or KIND/NAME, or KIND and then NAME.",
        autocompletion=completions.models_and_objects,
    ),
]
NameArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="One object.", autocompletion=completions.objects)
]
NamesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="NAME…", help="Only these.", autocompletion=completions.objects)
]
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="The model.", autocompletion=completions.models)]
ObjectArgument = Annotated[
    str,
    typer.Argument(metavar="[KIND/]NAME", help="A model, or KIND/NAME.", autocompletion=completions.models_and_objects),
]
Force = Annotated[
    bool, typer.Option("--force", help="Also when it takes or gives something else than callers are used to.")
]
VersionArgument = Annotated[
    str, typer.Argument(metavar="VERSION", help="The version: a number or a name.", autocompletion=completions.versions)
]
Labels = Annotated[list[str] | None, typer.Option("--label", "-l", metavar="KEY=VALUE", help="A label; repeatable.")]
RequirementsFile = Annotated[
    Path | None,
    typer.Option(
        "--requirements", metavar="FILE", help="Packages it runs with, as for pip; default: requirements.txt in PATH."
    ),
]
OneRequirement = Annotated[
    list[str] | None,
    typer.Option("--requirement", metavar="PACKAGE", help="One such package, as scikit-learn==1.5.2; repeatable."),
]
NoRequirements = Annotated[
    bool, typer.Option("--no-requirements", help="Run it with what the plane has, whatever requirements.txt says.")
]
PythonOption = Annotated[str | None, typer.Option("--python", help="Run it with this Python, such as 3.12.")]
