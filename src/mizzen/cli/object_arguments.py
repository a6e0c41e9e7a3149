"""Arguments that name objects (KIND NAME, KIND/NAME), and options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mizzen import errors
from mizzen.cli import completions
from mizzen.cli.parameters import argument, option
from mizzen.kinds.schema import names_and_columns
from mizzen.kinds.schema.names_and_columns import KindNames

if TYPE_CHECKING:
    from mizzen.sdk.keywords import EnvironmentKeywords


def parse_kinds(kind: str, names: list[str]) -> list[tuple[KindNames, list[str]]]:
    """Parse `KIND`, `KIND,KIND`, `KIND NAME…` or `KIND/NAME…`; no names means all objects of the kind.

    Raises NotFound for an unknown kind.
    """
    if "/" not in kind:
        return [(names_and_columns.find(word), names) for word in kind.split(",")]
    found: dict[KindNames, list[str]] = {}
    for word in (kind, *names):
        if "/" not in word:
            before = kind.partition("/")[0]
            raise typer.BadParameter(f"write {before} {word} or {before}/{word}")
        one, name = parse_object(word, None)
        found.setdefault(one, []).append(name)
    return list(found.items())


def parse_object(kind: str, name: str | None) -> tuple[KindNames, str]:
    """Parse `KIND NAME` or `KIND/NAME`. Raises NotFound, with a suggestion, for an unknown kind."""
    word, slash, rest = kind.partition("/")
    if slash and name is not None:
        raise typer.BadParameter(f"write {word} {name} or {word}/{name}")
    if slash and not rest:
        raise typer.BadParameter(f"'{kind}' has no name after the /")
    found, named = names_and_columns.find(word), rest if slash else name
    if named is None:
        raise typer.BadParameter(f"the name is missing; write {found.singular}/NAME")
    return found, named


def parse_model_or_object(what: str) -> tuple[KindNames, str]:
    """Parse NAME, which is a model, or KIND/NAME."""
    return parse_object(what, None) if "/" in what else (names_and_columns.BY_NAME["Model"], what)


def parse_object_or_model(word: str, name: str | None) -> tuple[KindNames, str]:
    """Like `parse_object`, but a lone word that is not a kind names a model."""
    if name is None and "/" not in word and not _is_kind(word):
        return names_and_columns.BY_NAME["Model"], word
    return parse_object(word, name)


def parse_pairs(given: list[str], option: str) -> dict[str, str]:
    """Parse the KEY=VALUE values of an option."""
    wrong = next((pair for pair in given if "=" not in pair.removeprefix("=")), None)
    if wrong is not None:
        raise typer.BadParameter(f"'{wrong}' is not KEY=VALUE", param_hint=f"'{option}'")
    return dict(pair.split("=", 1) for pair in given)


def _is_kind(word: str) -> bool:
    try:
        names_and_columns.find(word)
    except errors.NotFound:
        return False
    return True


KindArgument = Annotated[
    str,
    argument(
        "KIND[/NAME]",
        "Kind: Model, MLGraph, …, also as models or mlg; several as model,mv; an object as model/iris.",
        completions.kinds_and_objects,
    ),
]
ModelOrKindArgument = Annotated[
    str, argument("[KIND/]NAME|KIND", "Model, KIND/NAME, or KIND followed by NAME.", completions.models_and_objects)
]
NameArgument = Annotated[str | None, argument("NAME", "Name of the object.", completions.objects)]
NamesArgument = Annotated[list[str] | None, argument("NAME…", "Names of objects.", completions.objects)]
ModelArgument = Annotated[str, argument("MODEL", "Name of the model.", completions.models)]
ObjectArgument = Annotated[str, argument("[KIND/]NAME", "Model, or KIND/NAME.", completions.models_and_objects)]
Force = Annotated[bool, option("Proceed even if the signature changed: its inputs or outputs.", "--force")]
VersionArgument = Annotated[str, argument("VERSION", "Version: a number or a name.", completions.versions)]
Labels = Annotated[list[str] | None, option("Label; repeatable.", "--label", "-l", metavar="KEY=VALUE")]


@dataclass(frozen=True)
class PackageOptions:
    """Options for what a version runs with."""

    requirements: Annotated[
        Path | None, option("File of required packages, for pip [default: requirements.txt in PATH].", metavar="FILE")
    ] = None
    requirement: Annotated[
        list[str] | None, option("Required package, such as scikit-learn==1.5.2; repeatable.", metavar="PACKAGE")
    ] = None
    no_requirements: Annotated[
        bool, option("Use the plane's own packages; ignore requirements.txt.", "--no-requirements")
    ] = False
    python: Annotated[str | None, option("Python version to run it with, such as 3.12.")] = None

    def keywords(self) -> EnvironmentKeywords:
        """The same as keywords of the SDK."""
        if sum((self.requirements is not None, bool(self.requirement), self.no_requirements)) > 1:
            raise typer.BadParameter("give only one of --requirements, --requirement and --no-requirements")
        required = [] if self.no_requirements else self.requirement or self.requirements
        return {"requirements": required, "python": self.python}
